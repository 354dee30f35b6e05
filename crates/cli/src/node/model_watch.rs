//! Notices when the store's model for the choice of codecs is replaced, so that a node follows `thalweg train` without a
//! restart.

use std::time::{Duration, Instant};

use repository::{ModelChange, Repository};

use super::Node;

/// How often the file is looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// How soon the thread notices that the node stops.
const PAUSE: Duration = Duration::from_millis(50);

/// Follows the file until the node stops, in a thread of its own, since it waits for the disk.
pub(super) fn follow(node: &Node) {
    let mut checked = Instant::now();
    while !node.is_stopping() {
        std::thread::sleep(PAUSE);
        if checked.elapsed() >= CHECK_INTERVAL {
            check(&node.repository);
            checked = Instant::now();
        }
    }
}

/// Takes another model if there is one, and logs what became of it.
fn check(repository: &Repository) {
    match repository.reload_model() {
        ModelChange::None => {}
        ModelChange::Replaced => tracing::info!("codecs are chosen by the model that the store has now"),
        ModelChange::Removed => tracing::info!("codecs are chosen by the built-in model: the store's was removed"),
        ModelChange::Refused(why) => tracing::warn!("{why}"),
    }
}
