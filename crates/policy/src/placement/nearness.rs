//! Items in an order in which what is read together stands together: breadth first from an item that few tasks read,
//! those with few readers first (Cuthill & McKee 1969). A list of neighbouring pairs gets its sky back, however it was
//! shuffled; of two sets each keeps the order in which it was met.

use std::collections::VecDeque;

use crate::cache::ItemId;

/// Returns each item's place, by its number; items that no task reads have none.
pub(super) fn places(tasks: &[&[ItemId]]) -> Vec<Option<u32>> {
    let readers = readers(tasks);
    let mut starts: Vec<ItemId> = tasks.iter().flat_map(|inputs| inputs.iter().copied()).collect();
    // Stable: among equals the first that was met.
    starts.sort_by_key(|item| readers[item.at()].len());
    let mut walk = Walk { places: vec![None; readers.len()], placed: 0, queue: VecDeque::new() };
    let mut is_read = vec![false; tasks.len()];
    for start in starts {
        walk.place(start);
        while let Some(item) = walk.queue.pop_front() {
            let mut near: Vec<ItemId> = Vec::new();
            for &task in &readers[item.at()] {
                if !std::mem::replace(&mut is_read[task as usize], true) {
                    near.extend(tasks[task as usize].iter().filter(|item| walk.places[item.at()].is_none()));
                }
            }
            near.sort_by_key(|item| readers[item.at()].len());
            near.into_iter().for_each(|item| walk.place(item));
        }
    }
    walk.places
}

struct Walk {
    places: Vec<Option<u32>>,
    placed: u32,
    queue: VecDeque<ItemId>,
}

impl Walk {
    fn place(&mut self, item: ItemId) {
        if self.places[item.at()].is_none() {
            self.places[item.at()] = Some(self.placed);
            self.placed += 1;
            self.queue.push_back(item);
        }
    }
}

/// Returns the tasks that read each item.
fn readers(tasks: &[&[ItemId]]) -> Vec<Vec<u32>> {
    let items = tasks.iter().flat_map(|inputs| inputs.iter()).map(|item| item.at() + 1).max().unwrap_or(0);
    let mut readers = vec![Vec::new(); items];
    for (task, inputs) in tasks.iter().enumerate() {
        inputs.iter().for_each(|item| readers[item.at()].push(task as u32));
    }
    readers
}
