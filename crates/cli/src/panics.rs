//! A broken invariant ends a node or a gate at once: without a thread or a task, or with a lock that can never be taken
//! again, it would answer some clients and hang others. Its supervisor starts it again.

use crate::log;

/// From now on a panic of any thread or task prints what it has to say and aborts the process.
pub fn end_the_process() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        tracing::error!(
            "internal error; the process ends, so that it can be started again [{}]",
            format::ErrorCode::Internal
        );
        log::flush();
        std::process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use crate::log::LogArguments;

    /// Set for the process that is to panic.
    const VARIABLE: &str = "THALWEG_TEST_PANIC";

    #[test]
    fn a_panic_of_any_thread_ends_the_process() {
        if std::env::var_os(VARIABLE).is_some() {
            log::start(&LogArguments::default(), tracing::Level::WARN).unwrap();
            end_the_process();
            let _ = std::thread::spawn(|| panic!("an invariant is broken, on purpose")).join();
            std::thread::sleep(Duration::from_secs(20));
            return;
        }
        let name = "panics::tests::a_panic_of_any_thread_ends_the_process";
        let mut command = Command::new(std::env::current_exe().unwrap());
        let ended = command.args(["--exact", name, "--nocapture"]).env(VARIABLE, "1").output().unwrap();
        assert_eq!(ended.status.signal(), Some(libc::SIGABRT));
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains("on purpose") && said.contains("internal error"), "{said}");
    }
}
