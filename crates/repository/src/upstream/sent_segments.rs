//! Where segments of the near store lie in the far one, as far as this process knows.

use std::collections::BTreeMap;
use std::sync::Mutex;

use format::{ContainerId, SegmentAddress};

/// Of runs of neighbours: some 60 MB. Beyond, all is forgotten, and the far store asked again.
const MAX_RUNS: usize = 1 << 20;

/// By container and first ordinal: how many, and where the first lies.
type Runs = BTreeMap<(ContainerId, u32), (u32, SegmentAddress)>;

#[derive(Default)]
pub(super) struct SentSegments {
    runs: Mutex<Runs>,
}

impl SentSegments {
    pub fn note(&self, sent: impl Iterator<Item = (SegmentAddress, SegmentAddress)>) {
        let mut runs = self.runs.lock().expect("no panic holds it");
        if runs.len() >= MAX_RUNS {
            runs.clear();
        }
        sent.for_each(|(near, far)| add(&mut runs, near, far));
    }

    pub fn far_address(&self, near: SegmentAddress) -> Option<SegmentAddress> {
        let runs = self.runs.lock().expect("no panic holds it");
        let ((container, first), (count, far)) = runs.range(..=(near.container, near.ordinal)).next_back()?;
        let ahead = near.ordinal.checked_sub(*first).filter(|ahead| *container == near.container && ahead < count)?;
        Some(SegmentAddress::new(far.container, far.ordinal + ahead))
    }

    /// Forgets all: the far store may collect what nothing refers to yet.
    pub fn forget(&self) {
        self.runs.lock().expect("no panic holds it").clear();
    }
}

fn add(runs: &mut Runs, near: SegmentAddress, far: SegmentAddress) {
    let before = runs.range_mut(..(near.container, near.ordinal)).next_back();
    if let Some(((container, first), (count, start))) = before {
        let follows = *container == near.container && first + *count == near.ordinal;
        if follows && start.container == far.container && start.ordinal + *count == far.ordinal {
            *count += 1;
            return;
        }
    }
    runs.insert((near.container, near.ordinal), (1, far));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_that_stay_neighbours_are_one_run_and_each_is_found() {
        let address = |container, ordinal| SegmentAddress::new(ContainerId(container), ordinal);
        let sent = SentSegments::default();
        sent.note((0..8).map(|at| (address(9, at), address(1, 40 + at))));
        sent.note((8..12).map(|at| (address(9, at), address(2, at))));
        assert_eq!(sent.runs.lock().unwrap().len(), 2);
        let found = [0, 7, 8, 11, 12].map(|at| sent.far_address(address(9, at)));
        assert_eq!(
            found,
            [Some(address(1, 40)), Some(address(1, 47)), Some(address(2, 8)), Some(address(2, 11)), None]
        );
        assert_eq!([sent.far_address(address(8, 3)), sent.far_address(address(10, 3))], [None, None]);
        sent.forget();
        assert_eq!(sent.far_address(address(9, 3)), None);
    }
}
