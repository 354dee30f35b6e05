//! The processors' counters of energy (RAPL), as Linux's powercap shows them: microjoules that only grow, and begin again at 0.
//!
//! Since Linux 5.10 only root may read them, as what a program computes shows in them (CVE-2020-8694).

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const POWERCAP: &str = "/sys/class/powercap";

/// Zones are numbered from 0, one for each processor, of AMD's under the same names; there may be gaps where processors were taken offline.
const MAX_ZONES: usize = 64;

/// Counters move about every millisecond; one that did not for so long stands still, as virtual machines show them.
const UPDATE_TIMEOUT: Duration = Duration::from_millis(50);
/// Between two looks at a counter, which must not be counted as a busy core.
const POLL_INTERVAL: Duration = Duration::from_micros(100);

/// The counters of all processors of a machine.
pub struct EnergyCounters {
    packages: Vec<Package>,
}

struct Package {
    energy: PathBuf,
    /// The number after which the counter is 0 again (µJ).
    range_uj: Option<u64>,
}

/// A counter (µJ), and when it was read.
type Reading = (u64, Instant);

impl EnergyCounters {
    /// Returns those of this machine; `None` where there are none, or this process may not read all of them.
    pub fn of_machine() -> Option<Self> {
        EnergyCounters::in_directory(Path::new(POWERCAP))
    }

    /// The same of a directory like `/sys/class/powercap`.
    pub(crate) fn in_directory(powercap: &Path) -> Option<Self> {
        let zones = (0..MAX_ZONES).map(|zone| powercap.join(format!("intel-rapl:{zone}")));
        let packages: Vec<Package> = zones.filter(|zone| is_package(zone)).map(Package::of_zone).collect();
        let is_readable = packages.iter().all(|package| number(&package.energy).is_some());
        (!packages.is_empty() && is_readable).then_some(EnergyCounters { packages })
    }

    /// Returns the mean power of all processors while `work` runs (W); `None` where a counter stands still or cannot be read.
    pub fn watts(&self, work: &dyn Fn()) -> Option<f64> {
        let before = self.readings()?;
        work();
        let after = self.readings()?;
        let readings = before.into_iter().zip(after);
        self.packages.iter().zip(readings).map(|(package, (before, after))| package.watts(before, after)).sum()
    }

    fn readings(&self) -> Option<Vec<Reading>> {
        self.packages.iter().map(Package::read).collect()
    }
}

/// Among the zones is `psys`, the whole machine, in which processors would count twice. Parts of a processor, as `intel-rapl:0:1`, are zones below these.
fn is_package(zone: &Path) -> bool {
    fs::read_to_string(zone.join("name")).is_ok_and(|name| name.starts_with("package"))
}

impl Package {
    fn of_zone(zone: PathBuf) -> Self {
        Package { energy: zone.join("energy_uj"), range_uj: number(&zone.join("max_energy_range_uj")) }
    }

    /// Waits until the counter moves: read at any other time it would be of up to a millisecond ago, a tenth of a short window.
    fn read(&self) -> Option<Reading> {
        let (begun, first_uj) = (Instant::now(), number(&self.energy)?);
        while begun.elapsed() < UPDATE_TIMEOUT {
            let now_uj = number(&self.energy)?;
            if now_uj != first_uj {
                return Some((now_uj, Instant::now()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        None
    }

    fn watts(&self, before: Reading, after: Reading) -> Option<f64> {
        let seconds = (after.1 - before.1).as_secs_f64();
        Some(self.counted_uj(before.0, after.0)? as f64 / 1e6 / seconds)
    }

    fn counted_uj(&self, before_uj: u64, after_uj: u64) -> Option<u64> {
        after_uj.checked_sub(before_uj).or_else(|| self.range_uj?.checked_sub(before_uj)?.checked_add(after_uj))
    }
}

const MAX_NUMBER_BYTES: u64 = 64;

fn number(path: &Path) -> Option<u64> {
    let mut text = String::new();
    // What is no such file, as a pipe, is not waited for.
    let file = fs::metadata(path).ok().filter(|found| found.is_file()).and_then(|_| fs::File::open(path).ok())?;
    file.take(MAX_NUMBER_BYTES).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_powercap::{MadePowercap, RANGE_UJ};

    fn package_count(powercap: &MadePowercap) -> Option<usize> {
        Some(EnergyCounters::in_directory(powercap.directory())?.packages.len())
    }

    #[test]
    fn packages_count_and_their_parts_and_the_whole_machine_do_not() {
        let powercap = MadePowercap::new("zones");
        assert_eq!(package_count(&powercap), None);
        for (zone, name) in [
            ("intel-rapl", "no zone"),
            ("intel-rapl:0", "package-0"),
            ("intel-rapl:0:0", "core"),
            ("intel-rapl:1", "psys"),
            ("intel-rapl:3", "package-1-die-0"),
            ("intel-rapl:3:0", "dram"),
            ("intel-rapl-mmio:0", "package-0"),
            ("dtpm", "package-0"),
        ] {
            powercap.add_zone(zone, name);
        }
        assert_eq!(package_count(&powercap), Some(2));
    }

    #[test]
    fn two_packages_are_one_sum() {
        let powercap = MadePowercap::new("sum");
        ["intel-rapl:0", "intel-rapl:1"].iter().for_each(|zone| powercap.add_zone(zone, "package"));
        powercap.add_zone("intel-rapl:0:0", "core");
        let counters = EnergyCounters::in_directory(powercap.directory()).unwrap();
        let watts = powercap.while_counting(|meter| {
            meter.set_watts(15.0);
            counters.watts(&|| std::thread::sleep(Duration::from_millis(100)))
        });
        assert!((20.0..40.0).contains(&watts.unwrap()), "{watts:?}");
    }

    #[test]
    fn a_counter_that_cannot_be_read_leaves_no_partial_sum() {
        let powercap = MadePowercap::new("unreadable");
        ["intel-rapl:0", "intel-rapl:1"].iter().for_each(|zone| powercap.add_zone(zone, "package"));
        let counters = EnergyCounters::in_directory(powercap.directory()).unwrap();
        for garbage in ["", "no number", "-5", "1.5", "18446744073709551616"] {
            powercap.set_energy("intel-rapl:1", garbage);
            assert_eq!(package_count(&powercap), None, "{garbage:?}");
        }
        powercap.make_unreadable("intel-rapl:1");
        assert_eq!(package_count(&powercap), None);
        assert_eq!(counters.packages[1].read(), None);
    }

    #[test]
    fn a_counter_that_stands_still_says_nothing() {
        let powercap = MadePowercap::new("still");
        powercap.add_zone("intel-rapl:0", "package-0");
        assert_eq!(EnergyCounters::in_directory(powercap.directory()).unwrap().watts(&|| ()), None);
    }

    #[test]
    fn a_counter_that_begins_again_goes_on() {
        let powercap = MadePowercap::new("wrap");
        powercap.add_zone("intel-rapl:0", "package-0");
        let counted_uj = |before_uj, after_uj| {
            EnergyCounters::in_directory(powercap.directory()).unwrap().packages[0].counted_uj(before_uj, after_uj)
        };
        assert_eq!(counted_uj(10, 30), Some(20));
        assert_eq!(counted_uj(RANGE_UJ - 10, 5), Some(15));
        assert_eq!(counted_uj(RANGE_UJ + 10, 5), None, "beyond its range");
        powercap.set_range("intel-rapl:0", "no number");
        assert_eq!((counted_uj(10, 30), counted_uj(90, 5)), (Some(20), None));
    }
}
