//! Items by name, with their size once a worker has had them, and the tasks that use them.

use std::collections::HashMap;

use policy::cache::ItemId;
use policy::placement::TaskId;

#[derive(Default)]
pub(crate) struct Item {
    pub is_measured: bool,
    /// The last task that was submitted to write it, which may have ended.
    pub writer: Option<TaskId>,
    /// Tasks that were submitted since to read it, some of which may have ended.
    pub readers: Vec<TaskId>,
}

/// Sizes that are not known are taken as the mean of those that are.
pub(crate) struct Items {
    names: HashMap<Box<str>, ItemId>,
    all: Vec<Item>,
    measured: u64,
    measured_bytes: u64,
    guess_bytes: u64,
}

impl Items {
    pub fn new(guess_bytes: u64) -> Self {
        Items { names: HashMap::new(), all: Vec::new(), measured: 0, measured_bytes: 0, guess_bytes }
    }

    pub fn find(&self, name: &str) -> Option<ItemId> {
        self.names.get(name).copied()
    }

    /// Numbered as the scheduler numbers them.
    pub fn add(&mut self, name: &str, item: ItemId) {
        assert_eq!(item.0 as usize, self.all.len(), "items are numbered without gaps");
        self.names.insert(name.into(), item);
        self.all.push(Item::default());
    }

    pub fn get(&self, item: ItemId) -> &Item {
        &self.all[item.0 as usize]
    }

    pub fn get_mut(&mut self, item: ItemId) -> &mut Item {
        &mut self.all[item.0 as usize]
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn expected_bytes(&self) -> u64 {
        self.measured_bytes.checked_div(self.measured).unwrap_or(self.guess_bytes)
    }

    pub fn measured(&mut self, item: ItemId, bytes: u64) {
        let entry = &mut self.all[item.0 as usize];
        if !std::mem::replace(&mut entry.is_measured, true) {
            self.measured += 1;
            self.measured_bytes = self.measured_bytes.saturating_add(bytes);
        }
    }
}
