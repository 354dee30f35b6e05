//! What a request was granted when it began: so many bytes pass without another turn, and count as outstanding at the
//! server until it has replied. Dropping it gives the depth back.

use crate::shares::Turn;

pub(crate) struct Grant {
    /// None: it counts no longer, but was paid, so the bytes may pass.
    turn: Option<Turn>,
    bytes: u64,
    moved: u64,
}

impl Grant {
    pub fn new(turn: Turn, bytes: u64) -> Grant {
        Grant { turn: Some(turn), bytes, moved: 0 }
    }

    /// An object's last slice, which has been moved already.
    pub fn spent(turn: Turn, bytes: u64) -> Grant {
        turn.awaits_reply();
        Grant { turn: Some(turn), bytes, moved: bytes }
    }

    pub fn counts(&self) -> bool {
        self.turn.is_some()
    }

    /// Bytes that may still pass.
    pub fn left(&self) -> u64 {
        self.bytes - self.moved
    }

    pub fn moved(&mut self, bytes: u64) {
        self.moved += bytes.min(self.left());
        self.progress();
    }

    pub fn progress(&self) {
        self.turn.iter().for_each(Turn::progress);
    }

    /// The server has served it.
    pub fn complete(self) {
        self.turn.into_iter().for_each(|turn| turn.complete_request(self.moved));
    }

    /// Others shall have the depth; what has passed is paid, and the rest asks again.
    pub fn release(self) {
        self.turn.into_iter().for_each(|turn| turn.give_back(self.moved));
    }

    /// Others shall have the depth; all is paid and may pass: the server reads something else first, and must find this
    /// whole when it comes to it.
    pub fn forgo_depth(&mut self) {
        self.turn.take().into_iter().for_each(|turn| turn.give_back(self.bytes));
    }

    /// All of it has passed: the turn, and for how many bytes it was.
    pub fn into_turn(self) -> Option<(Turn, u64)> {
        Some((self.turn?, self.moved))
    }
}
