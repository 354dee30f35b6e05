//! A directory like `/sys/class/powercap`, for tests: machines that run them may have no counters of energy.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The range of every zone's counter (µJ).
pub(crate) const RANGE_UJ: u64 = 262_143_328_850;

const UPDATE_INTERVAL: Duration = Duration::from_millis(1);

pub(crate) struct MadePowercap(PathBuf);

impl MadePowercap {
    pub fn new(test: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("thalweg-powercap-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        MadePowercap(directory)
    }

    pub fn directory(&self) -> &Path {
        &self.0
    }

    pub fn add_zone(&self, zone: &str, name: &str) {
        fs::create_dir_all(self.0.join(zone)).unwrap();
        fs::write(self.0.join(zone).join("name"), format!("{name}\n")).unwrap();
        self.set_range(zone, &format!("{RANGE_UJ}\n"));
        self.set_energy(zone, "5\n");
    }

    pub fn set_range(&self, zone: &str, text: &str) {
        fs::write(self.0.join(zone).join("max_energy_range_uj"), text).unwrap();
    }

    /// By a new name, so that nobody reads half of it.
    pub fn set_energy(&self, zone: &str, text: &str) {
        let written = self.0.join(zone).join("written");
        fs::write(&written, text).unwrap();
        fs::rename(written, self.0.join(zone).join("energy_uj")).unwrap();
    }

    /// A directory is in the file's place: permissions would not keep root from reading it.
    pub fn make_unreadable(&self, zone: &str) {
        let energy = self.0.join(zone).join("energy_uj");
        fs::remove_file(&energy).unwrap();
        fs::create_dir(energy).unwrap();
    }

    /// Lets the counters of all zones count while `work` runs, as the meter says.
    pub fn while_counting<T>(&self, work: impl FnOnce(&Meter) -> T) -> T {
        let (meter, is_over) = (Meter::new(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    self.set_all(&format!("{}\n", meter.microjoules()));
                    std::thread::sleep(UPDATE_INTERVAL);
                }
            });
            let _ends = SetOnDrop(&is_over);
            work(&meter)
        })
    }

    fn set_all(&self, energy: &str) {
        let zones = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name());
        zones.for_each(|zone| self.set_energy(zone.to_str().unwrap(), energy));
    }
}

impl Drop for MadePowercap {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Ends the counting also where the work panics.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What each zone takes.
pub(crate) struct Meter(Mutex<Metered>);

struct Metered {
    until: Instant,
    joules: f64,
    watts: f64,
}

impl Meter {
    fn new() -> Self {
        Meter(Mutex::new(Metered { until: Instant::now(), joules: 0.0, watts: 1.0 }))
    }

    pub fn set_watts(&self, watts: f64) {
        self.counted().watts = watts;
    }

    fn microjoules(&self) -> u64 {
        (self.counted().joules * 1e6) as u64
    }

    fn counted(&self) -> MutexGuard<'_, Metered> {
        let mut metered = self.0.lock().unwrap();
        let now = Instant::now();
        metered.joules += metered.watts * (now - metered.until).as_secs_f64();
        metered.until = now;
        metered
    }
}
