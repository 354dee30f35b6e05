//! The process's own use of processor and memory, as Linux reports it.

use std::fs;
use std::time::Duration;

/// Zeros where /proc is not to be had.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Process {
    pub cpu: Duration,
    pub resident_bytes: u64,
}

/// Ticks of /proc/self/stat; 100 a second on every Linux that programs see (USER_HZ).
const TICK: Duration = Duration::from_millis(10);

impl Process {
    pub fn now() -> Process {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Process {
            cpu: cpu(&read("/proc/self/stat")).unwrap_or_default(),
            resident_bytes: resident_bytes(&read("/proc/self/status")).unwrap_or_default(),
        }
    }
}

/// Fields 14 and 15 of proc(5), counted behind the command's name, which may have spaces.
fn cpu(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let (user, system): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    TICK.checked_mul(user.checked_add(system)?)
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_brackets_does_not_confuse() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 9 9 20 0 1 0 100 1000 10";
        assert_eq!(cpu(stat), Some(Duration::from_secs(3)));
        assert_eq!(cpu("7 (a"), None);
    }

    #[test]
    fn this_process_has_memory() {
        assert!(Process::now().resident_bytes > 100_000);
        assert_eq!(resident_bytes("VmPeak: 5 kB\nVmRSS:\t    12 kB\n"), Some(12 * 1024));
    }
}
