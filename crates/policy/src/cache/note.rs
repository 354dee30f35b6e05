//! A scheduler's notes about an item: kept in the item's cache line, since both are needed at once.

const NONE: u32 = u32::MAX;

/// Its tasks in the window, by the scheduler's numbers for their wants.
#[derive(Clone, Copy)]
pub(crate) struct Note {
    pub first_want: u32,
    pub last_want: u32,
    /// Cold tasks whose first input it is.
    leads: u32,
}

impl Note {
    pub const NOTHING: Note = Note { first_want: NONE, last_want: NONE, leads: 0 };

    pub fn is_wanted(&self) -> bool {
        self.first_want != NONE
    }

    /// Gives how many cold tasks it led before and leads now.
    pub fn lead(&mut self, change: i32) -> (u32, u32) {
        let after = self.leads.checked_add_signed(change).expect("a lead is counted down as often as up");
        (std::mem::replace(&mut self.leads, after), after)
    }
}
