//! Standard input and output that are closed, or open the wrong way round, and names and times at the edge.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use super::runner::{Store, command, run};

/// Runs it without this stream.
fn without(stream: i32, mut command: Command) -> Output {
    // SAFETY: between fork and exec only a system call is made.
    unsafe {
        command.pre_exec(move || match libc::close(stream) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn nothing_is_put_from_standard_input_that_cannot_be_read() {
    let store = Store::new();
    let target = store.address("from-nowhere");
    let put = || command(&["put".as_ref(), "-".as_ref(), target.as_os_str()]);
    let closed = without(0, put());
    assert_eq!(closed.status.code(), Some(1), "{}", said(&closed));
    assert!(said(&closed).contains("standard input"), "{}", said(&closed));
    let mut write_only = put();
    write_only.stdin(File::create(store.path("written")).unwrap());
    let write_only = write_only.output().unwrap();
    assert_eq!(write_only.status.code(), Some(1), "{}", said(&write_only));
    assert_eq!(run(&["stat".as_ref(), target.as_os_str()]).code, Some(1), "nothing was stored");
    let mut empty = put();
    assert_eq!(empty.stdin(Stdio::null()).output().unwrap().status.code(), Some(0), "an empty file is one");
}

#[test]
fn a_result_that_cannot_be_written_is_an_error_and_a_summary_is_none() {
    let store = Store::new();
    fs::write(store.path("file"), "content").unwrap();
    store.put(&store.path("file"), "file").expect(0);
    let (address, root) = (store.address("file"), store.address(""));
    let local = store.path("again").into_os_string();
    for arguments in
        [["ls".as_ref(), root.as_os_str()].to_vec(), vec!["get".as_ref(), address.as_os_str(), "-".as_ref()]]
    {
        let closed = without(1, command(&arguments));
        assert_eq!(closed.status.code(), Some(1), "{arguments:?}: {}", said(&closed));
        assert!(said(&closed).contains("standard output"), "{}", said(&closed));
        let mut read_only = command(&arguments);
        let read_only = read_only.stdout(File::open(store.path("file")).unwrap()).output().unwrap();
        assert_eq!(read_only.status.code(), Some(1), "{arguments:?}: {}", said(&read_only));
    }
    let fetched = without(1, command(&["get".as_ref(), address.as_os_str(), local.as_os_str()]));
    assert_eq!(fetched.status.code(), Some(0), "{}", said(&fetched));
    assert_eq!(fs::read(&local).unwrap(), b"content");
}

#[test]
fn directories_without_a_time_have_that_of_their_fetching() {
    let store = Store::new();
    fs::write(store.path("file"), "content").unwrap();
    store.put(&store.path("file"), "made/on/the/way/file").expect(0);
    let to = store.path("fetched");
    store.get("", &to).expect(0);
    for directory in [&to, &to.join("made"), &to.join("made/on/the/way")] {
        let modified = directory.metadata().unwrap().modified().unwrap();
        let age = SystemTime::now().duration_since(modified).unwrap_or_default();
        assert!(age < Duration::from_secs(3600), "{}: {age:?}", directory.display());
    }
}
