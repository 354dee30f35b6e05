//! A table that is looked into at random: in large pages where the system has them.
//!
//! Pages of four kilobytes are more than a processor knows the places of, so that each look waits twice: for where the
//! page is, and for what is there.

use std::ops::{Deref, DerefMut};

pub(super) struct Table<T>(Vec<T>);

impl<T> Table<T> {
    pub fn new() -> Self {
        Table(Vec::new())
    }

    pub fn reserve_exact(&mut self, more: usize) {
        self.grow(self.0.len() + more);
    }

    pub fn push(&mut self, entry: T) {
        if self.0.len() == self.0.capacity() {
            self.grow(2 * self.0.len().max(32));
        }
        self.0.push(entry);
    }

    fn grow(&mut self, capacity: usize) {
        let mut larger = Vec::with_capacity(capacity);
        ask_for_large_pages(&larger);
        larger.append(&mut self.0);
        self.0 = larger;
    }
}

impl<T> Deref for Table<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for Table<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// Before anything is written there. A system that has none leaves it at small ones.
#[cfg(target_os = "linux")]
fn ask_for_large_pages<T>(table: &Vec<T>) {
    use rustix::mm::{Advice, madvise};

    const PAGE: usize = 2 << 20;
    let begin = table.as_ptr().cast::<u8>();
    let skipped = begin.align_offset(PAGE);
    let bytes = (table.capacity() * size_of::<T>()).saturating_sub(skipped) / PAGE * PAGE;
    if bytes > 0 {
        let first = begin.wrapping_add(skipped).cast_mut().cast();
        // SAFETY: the bytes are the table's own, and the advice changes nothing but how memory backs them.
        let _ = unsafe { madvise(first, bytes, Advice::LinuxHugepage) };
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_for_large_pages<T>(_: &Vec<T>) {}
