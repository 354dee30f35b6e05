//! Notices when the store's model for the choice of codecs is replaced, so that a node follows `thalweg train` without a
//! restart.

use std::time::{Duration, Instant};

use repository::{ModelChange, Repository};

/// How often the file is looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

pub(super) struct ModelWatch {
    checked: Instant,
}

impl ModelWatch {
    /// Watches a model that was read just now.
    pub fn begin() -> Self {
        ModelWatch { checked: Instant::now() }
    }

    /// Takes another model if there is one, and logs what became of it. It waits for the disk when the file is due.
    pub fn check_when_due(&mut self, repository: &Repository) {
        if self.checked.elapsed() < CHECK_INTERVAL {
            return;
        }
        self.checked = Instant::now();
        match repository.reload_model() {
            ModelChange::None => {}
            ModelChange::Replaced => tracing::info!("codecs are chosen by the model that the store has now"),
            ModelChange::Removed => {
                tracing::info!("codecs are chosen by the built-in model: the store's was removed");
            }
            ModelChange::Refused(why) => tracing::warn!("{why}"),
        }
    }
}
