//! How many watts a busy core takes above an idle one, where processors count their energy (RAPL, as Linux shows it).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Where Linux shows what counts energy.
const POWERCAP: &str = "/sys/class/powercap";

/// Long enough that counters, which move every millisecond, tell a watt.
const PERIOD: Duration = Duration::from_millis(500);

/// The processors' counters of energy.
pub struct EnergyCounters {
    packages: Vec<PathBuf>,
}

impl EnergyCounters {
    /// Returns those that this process may read; none where there is no such one.
    pub fn of_machine() -> Option<Self> {
        EnergyCounters::below(Path::new(POWERCAP))
    }

    fn below(folder: &Path) -> Option<Self> {
        let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
        // `intel-rapl:0` is a processor; `intel-rapl:0:1` is a part of it, and would count twice.
        let is_package = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.strip_prefix("intel-rapl:").is_some_and(|number| !number.contains(':')) && microjoules(path).is_some()
        };
        let packages: Vec<PathBuf> = entries.filter(is_package).collect();
        (!packages.is_empty()).then_some(EnergyCounters { packages })
    }

    /// Returns what a busy core takes above an idle one (W): all cores idle for half a second, and then busy.
    pub fn core_watts(&self, cores: usize) -> Option<f64> {
        let idle = self.watts(|| std::thread::sleep(PERIOD))?;
        let busy = self.watts(|| keep_busy(cores))?;
        Some((busy - idle) / cores as f64).filter(|watts| *watts > 0.0)
    }

    fn watts(&self, work: impl FnOnce()) -> Option<f64> {
        let (begun, before) = (Instant::now(), self.read()?);
        work();
        let (after, seconds) = (self.read()?, begun.elapsed().as_secs_f64());
        let joules = self.packages.iter().zip(before.into_iter().zip(after));
        let joules = joules.map(|(package, (before, after))| passed(before, after, range(package)));
        Some(joules.sum::<u64>() as f64 / 1e6 / seconds)
    }

    fn read(&self) -> Option<Vec<u64>> {
        self.packages.iter().map(|package| microjoules(package)).collect()
    }
}

fn microjoules(package: &Path) -> Option<u64> {
    number(&package.join("energy_uj"))
}

/// Returns the number at which a counter begins at 0 again.
fn range(package: &Path) -> u64 {
    number(&package.join("max_energy_range_uj")).unwrap_or(u64::MAX)
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn passed(before: u64, after: u64, range: u64) -> u64 {
    if after >= before { after - before } else { range.saturating_sub(before) + after }
}

/// Keeps so many cores busy with what stores do most: cutting and fingerprinting.
fn keep_busy(cores: usize) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    laboratory::fingerprint_mb_per_s();
                }
            });
        }
        std::thread::sleep(PERIOD);
        is_over.store(true, Ordering::Relaxed);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, value: &str) {
        fs::create_dir_all(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("energy_uj"), value).unwrap();
        fs::write(folder.join(name).join("max_energy_range_uj"), "1000000\n").unwrap();
    }

    #[test]
    fn packages_are_counted_and_their_parts_are_not() {
        let folder = std::env::temp_dir().join(format!("thalweg-energy-{}", std::process::id()));
        assert!(EnergyCounters::below(&folder).is_none());
        for (name, value) in [("intel-rapl:0", "5\n"), ("intel-rapl:0:0", "7\n"), ("intel-rapl:1", "no number")] {
            write(&folder, name, value);
        }
        let counters = EnergyCounters::below(&folder).unwrap();
        assert_eq!(counters.read(), Some(vec![5]));
        let watts = counters.watts(|| {
            std::thread::sleep(Duration::from_millis(20));
            write(&folder, "intel-rapl:0", "500005");
        });
        assert!((10.0..=25.0).contains(&watts.unwrap()), "{watts:?}");
        assert_eq!(counters.core_watts(1), None, "a counter that stands still says nothing");
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(counters.core_watts(1), None);
    }

    #[test]
    fn a_counter_that_begins_again_goes_on() {
        assert_eq!(passed(10, 30, 100), 20);
        assert_eq!(passed(90, 5, 100), 15);
    }
}
