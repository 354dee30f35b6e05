//! The sessions that clients began and did not end: each is a row of the catalog and holds collection back until its
//! lease runs out, so their number is bounded.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use format::SessionId;
use transfer::message::{Failure, FailureKind};

/// A process has one for each store that it has open.
const MAX_OF_CLIENT: usize = 64;
const MAX_BEGUN: usize = 16_384;

/// The sessions that this node process began; those of an earlier one run out.
#[derive(Default)]
pub(crate) struct BegunSessions {
    sessions: Mutex<HashMap<SessionId, Begun>>,
}

struct Begun {
    client: u64,
    until: Instant,
}

impl BegunSessions {
    /// Refuses a client that has too many already.
    pub fn admit(&self, client: u64) -> Result<(), Failure> {
        let now = Instant::now();
        let mut sessions = self.sessions();
        sessions.retain(|_, begun| begun.until > now);
        let of_client = sessions.values().filter(|begun| begun.client == client).count();
        let why = match () {
            () if of_client >= MAX_OF_CLIENT => format!("this client has {of_client} sessions open; end some"),
            () if sessions.len() >= MAX_BEGUN => format!("clients have {MAX_BEGUN} sessions open; try again later"),
            () => return Ok(()),
        };
        Err(Failure::new(FailureKind::Refused, format!("no session was begun: {why}")))
    }

    /// Notes that a session was begun or renewed.
    pub fn lasts(&self, session: SessionId, client: u64, lease_ms: u64) {
        let until = Instant::now() + Duration::from_millis(lease_ms);
        self.sessions().insert(session, Begun { client, until });
    }

    pub fn ended(&self, session: SessionId) {
        self.sessions().remove(&session);
    }

    /// Whether none is left.
    pub fn are_over(&self) -> bool {
        let now = Instant::now();
        self.sessions().values().all(|begun| begun.until <= now)
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Begun>> {
        self.sessions.lock().expect("no panic holds it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_a_bounded_number_of_sessions_that_last() {
        let begun = BegunSessions::default();
        (0..MAX_OF_CLIENT as u64).for_each(|number| begun.lasts(SessionId(number), 1, 60_000));
        assert!(begun.admit(1).unwrap_err().text.contains("64 sessions"));
        assert!(begun.admit(2).is_ok());
        begun.ended(SessionId(5));
        assert!(begun.admit(1).is_ok());
        begun.lasts(SessionId(5), 1, 60_000);
        begun.lasts(SessionId(6), 1, 0);
        assert!(begun.admit(1).is_ok(), "a lease that ran out counts no more");
    }

    #[test]
    fn all_clients_together_have_a_bounded_number_of_sessions() {
        let begun = BegunSessions::default();
        (0..MAX_BEGUN as u64).for_each(|number| begun.lasts(SessionId(number), number, 60_000));
        assert!(begun.admit(1 << 40).is_err());
    }
}
