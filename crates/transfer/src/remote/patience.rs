//! How long and how often a request is tried again when the node cannot be reached.

use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, Result};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Patience {
    deadline: Instant,
    pause: Duration,
}

impl Patience {
    pub fn new(total: Duration) -> Self {
        Patience { deadline: Instant::now() + total, pause: FIRST_PAUSE }
    }

    /// Waits before the next attempt, each time twice as long; gives the error back when the time is over.
    pub fn wait(&mut self, error: Error) -> Result<()> {
        if !matches!(error, Error::Unavailable { .. }) || Instant::now() + self.pause > self.deadline {
            return Err(error);
        }
        thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_and_is_only_for_the_unavailable() {
        let unavailable = || Error::Unavailable { peer: "node".into(), why: "gone".into() };
        let mut patience = Patience::new(Duration::from_millis(100));
        assert!(patience.wait(Error::Refused("never".into())).is_err());
        let waits = (0..).take_while(|_| patience.wait(unavailable()).is_ok()).count();
        assert_eq!(waits, 2, "20 and 40 ms fit into 100 ms, 80 more do not");
    }
}
