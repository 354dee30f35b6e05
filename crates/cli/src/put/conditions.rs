//! What mode `performance` weighs: how fast bytes go where they go, and how many cores there are to encode them.

use format::{CodecChoice, Mode};
use policy::compression::Conditions;
use repository::Repository;
use transfer::{Credentials, Link};

use crate::location::StoreAddress;

/// Measures the link to the store's node and counts idle cores, where blocks are encoded by mode `performance`; of a disk the usual rate
/// is assumed. A link that cannot be measured is left to the transfer to complain of.
pub fn measure(repository: &Repository, store: &StoreAddress) {
    if repository.codec() != CodecChoice::Auto(Mode::Performance) {
        return;
    }
    let usual = Conditions::default();
    let bytes_per_second = link_bytes_per_second(store).unwrap_or(usual.bytes_per_second);
    segment::set_conditions(Conditions { bytes_per_second, cores: idle_cores(), ..usual });
}

fn link_bytes_per_second(store: &StoreAddress) -> Option<f32> {
    let StoreAddress::Node(address) = store else { return None };
    let credentials = Credentials::of_environment_for(address).ok()?;
    Some(Link::measure(address, &credentials).ok()?.bytes_per_s as f32)
}

/// Cores that nobody else used over the last minute, one at least.
fn idle_cores() -> f32 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f32;
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let busy: f32 = load.and_then(|load| load.split(' ').next()?.parse().ok()).unwrap_or(0.0);
    (cores - busy).max(1.0)
}
