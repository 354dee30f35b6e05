//! A binary heap over small numbers, with the place of each known, so that a key can be changed or taken out in
//! O(log n). Vectors only grow: no allocation once the largest number has been seen.

/// The number is not in the heap.
const ABSENT: u32 = u32::MAX;

/// Least key first. `K` must have a total order on the keys used (no NaN).
pub struct Heap<K> {
    items: Vec<(K, u32)>,
    /// By number, its place in `items`.
    places: Vec<u32>,
}

impl<K: Copy + PartialOrd> Heap<K> {
    pub fn new() -> Self {
        Heap { items: Vec::new(), places: Vec::new() }
    }

    pub fn first(&self) -> Option<(K, u32)> {
        self.items.first().copied()
    }

    pub fn contains(&self, number: u32) -> bool {
        self.places.get(number as usize).is_some_and(|&place| place != ABSENT)
    }

    /// Puts `number` in, or gives it another key.
    pub fn set(&mut self, number: u32, key: K) {
        if self.places.len() <= number as usize {
            self.places.resize(number as usize + 1, ABSENT);
        }
        let place = match self.places[number as usize] {
            ABSENT => {
                self.items.push((key, number));
                self.items.len() - 1
            }
            place => {
                self.items[place as usize].0 = key;
                place as usize
            }
        };
        self.sift(place);
    }

    pub fn remove(&mut self, number: u32) -> bool {
        if !self.contains(number) {
            return false;
        }
        let place = self.places[number as usize] as usize;
        self.places[number as usize] = ABSENT;
        self.items.swap_remove(place);
        if place < self.items.len() {
            self.sift(place);
        }
        true
    }

    /// Moves the item at `place` up or down to where it belongs.
    fn sift(&mut self, mut place: usize) {
        let item = self.items[place];
        while place > 0 {
            let above = (place - 1) / 2;
            if self.items[above].0 <= item.0 {
                break;
            }
            self.put(place, self.items[above]);
            place = above;
        }
        while let Some(below) = self.lesser_child(place).filter(|&below| self.items[below].0 < item.0) {
            self.put(place, self.items[below]);
            place = below;
        }
        self.put(place, item);
    }

    fn lesser_child(&self, place: usize) -> Option<usize> {
        let (left, right) = (2 * place + 1, 2 * place + 2);
        if right < self.items.len() && self.items[right].0 < self.items[left].0 {
            Some(right)
        } else {
            (left < self.items.len()).then_some(left)
        }
    }

    fn put(&mut self, place: usize, item: (K, u32)) {
        self.items[place] = item;
        self.places[item.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_a_sorted_list_under_random_changes() {
        let mut heap = Heap::new();
        let mut model: Vec<(u64, u32)> = Vec::new();
        let mut state = 7u64;
        for step in 0..20_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (number, key) = ((state >> 33) as u32 % 50, state >> 40);
            model.retain(|item| item.1 != number);
            if step % 3 == 0 {
                heap.remove(number);
            } else {
                heap.set(number, key);
                model.push((key, number));
            }
            model.sort();
            assert_eq!(heap.first().map(|item| item.0), model.first().map(|item| item.0));
        }
    }
}
