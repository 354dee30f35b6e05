//! Shared file pointers, for MPI's shared and ordered accesses: each belongs to a handle of a session, and is kept in
//! memory by the owner of the session's first stripe set.
//!
//! A move is a fetch-and-add, and one that is sent again after a break moves nothing twice: a client numbers its moves of a
//! pointer and has one under way at a time. A pointer ends with its handle, and with the node process; clients know by
//! the incarnation that another process has lost the position.

use std::collections::HashMap;
use std::sync::Mutex;

use format::{HandleKey, MAX_FILE_BYTES};
use transfer::message::{Failure, FailureKind};

/// Pointers of one session, and clients whose latest moves are remembered for all of them.
const MAX_POINTERS: usize = 256;
const MAX_CLIENTS: usize = 65_536;

/// A client's request to move a pointer.
pub(super) struct PointerMove {
    pub client: u64,
    /// Counts the client's moves of this pointer.
    pub number: u64,
    /// Goes up when all processes of the handle set the pointer together.
    pub generation: u64,
    /// Where the pointer stands at the begin of the generation.
    pub initial: u64,
    pub by: u64,
}

#[derive(Default)]
pub(super) struct SharedPointers(Mutex<HashMap<HandleKey, Pointer>>);

#[derive(Default)]
struct Pointer {
    generation: u64,
    position: u64,
    /// Of each client the latest move's number, and where the pointer stood before it.
    latest: HashMap<u64, (u64, u64)>,
}

impl SharedPointers {
    /// Moves the pointer of the handle with this key; returns where it stood before.
    pub fn advance(&self, key: HandleKey, asked: &PointerMove) -> Result<u64, Failure> {
        let mut pointers = self.0.lock().expect("moving a pointer does not panic");
        admit(&pointers, &key, asked.client)?;
        pointers.entry(key).or_insert_with(|| Pointer::at(asked)).advance(asked)
    }

    /// Forgets the pointer of a handle that was taken off.
    pub fn forget(&self, key: &HandleKey) {
        self.0.lock().expect("moving a pointer does not panic").remove(key);
    }
}

fn admit(pointers: &HashMap<HandleKey, Pointer>, key: &HandleKey, client: u64) -> Result<(), Failure> {
    let known = pointers.get(key);
    if known.is_some_and(|pointer| pointer.latest.contains_key(&client)) {
        return Ok(());
    }
    let clients: usize = pointers.values().map(|pointer| pointer.latest.len()).sum();
    if (known.is_some() || pointers.len() < MAX_POINTERS) && clients < MAX_CLIENTS {
        return Ok(());
    }
    let why = format!(
        "{} shared file pointers of this file are in use, by {clients} processes; close some of the file's handles",
        pointers.len()
    );
    Err(Failure::new(FailureKind::Unavailable, why))
}

impl Pointer {
    fn at(asked: &PointerMove) -> Self {
        Pointer { generation: asked.generation, position: asked.initial, latest: HashMap::new() }
    }

    fn advance(&mut self, asked: &PointerMove) -> Result<u64, Failure> {
        let (last, before) = self.latest.get(&asked.client).copied().unwrap_or_default();
        if asked.number == last {
            return Ok(before);
        }
        if asked.number < last || asked.generation < self.generation {
            return Err(refused("a move of the shared file pointer came after a later one".into()));
        }
        let before = if asked.generation > self.generation { asked.initial } else { self.position };
        let Some(after) = before.checked_add(asked.by).filter(|after| *after <= MAX_FILE_BYTES) else {
            let (by, most) = (asked.by, MAX_FILE_BYTES);
            return Err(refused(format!("the shared file pointer at {before} cannot move by {by}: {most} is the end")));
        };
        (self.generation, self.position) = (asked.generation, after);
        self.latest.insert(asked.client, (asked.number, before));
        Ok(before)
    }
}

fn refused(why: String) -> Failure {
    Failure::new(FailureKind::Refused, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: HandleKey = HandleKey([1; HandleKey::BYTES]);

    fn asked(client: u64, number: u64, by: u64) -> PointerMove {
        PointerMove { client, number, generation: 0, initial: 10, by }
    }

    fn key(number: usize) -> HandleKey {
        let mut key = HandleKey([2; HandleKey::BYTES]);
        key.0[..8].copy_from_slice(&(number as u64).to_le_bytes());
        key
    }

    #[test]
    fn each_move_gets_where_the_one_before_ended() {
        let pointers = SharedPointers::default();
        let befores = [(1, 1, 5), (2, 1, 7), (1, 2, 0), (2, 2, 1)]
            .map(|(client, number, by)| pointers.advance(KEY, &asked(client, number, by)).unwrap());
        assert_eq!(befores, [10, 15, 22, 22]);
        assert_eq!(pointers.advance(key(1), &asked(1, 3, 1)).unwrap(), 10, "another handle has its own");
    }

    #[test]
    fn a_move_that_is_sent_again_moves_nothing_twice() {
        let pointers = SharedPointers::default();
        for _ in 0..3 {
            assert_eq!(pointers.advance(KEY, &asked(1, 1, 5)).unwrap(), 10);
        }
        assert_eq!(pointers.advance(KEY, &asked(1, 2, 5)).unwrap(), 15);
        assert!(pointers.advance(KEY, &asked(1, 1, 5)).is_err(), "an older one is not remembered");
    }

    #[test]
    fn a_new_generation_begins_where_it_says_and_ends_the_one_before() {
        let pointers = SharedPointers::default();
        pointers.advance(KEY, &asked(1, 1, 5)).unwrap();
        let set = |client| PointerMove { generation: 2, initial: 3, ..asked(client, 2, 4) };
        assert_eq!(pointers.advance(KEY, &set(1)).unwrap(), 3);
        assert_eq!(pointers.advance(KEY, &set(2)).unwrap(), 7);
        assert!(pointers.advance(KEY, &asked(3, 1, 1)).unwrap_err().text.contains("after a later one"));
    }

    #[test]
    fn a_pointer_does_not_move_beyond_what_a_file_can_have() {
        let pointers = SharedPointers::default();
        assert!(pointers.advance(KEY, &asked(1, 1, MAX_FILE_BYTES)).unwrap_err().text.contains("is the end"));
        assert!(pointers.advance(KEY, &asked(1, 2, u64::MAX)).is_err());
        assert_eq!(pointers.advance(KEY, &asked(1, 3, 1)).unwrap(), 10);
    }

    #[test]
    fn pointers_and_the_clients_that_move_them_are_bounded() {
        let pointers = SharedPointers::default();
        assert!((0..MAX_POINTERS).all(|number| pointers.advance(key(number), &asked(1, 1, 1)).is_ok()));
        assert!(pointers.advance(key(MAX_POINTERS), &asked(1, 1, 1)).unwrap_err().text.contains("close some"));
        pointers.forget(&key(7));
        pointers.advance(key(MAX_POINTERS), &asked(1, 1, 1)).unwrap();
        let free = (MAX_CLIENTS - MAX_POINTERS) as u64;
        assert!((0..free).all(|client| pointers.advance(key(0), &asked(2 + client, 1, 1)).is_ok()));
        assert!(pointers.advance(key(0), &asked(u64::MAX, 1, 1)).is_err());
        pointers.advance(key(0), &asked(2, 2, 1)).unwrap();
    }
}
