//! The shared store: its bandwidth is shared by all its readers, none of which gets more than a reader's rate or than
//! its node's interface leaves (max-min fair).
//!
//! Readers of the same limit go at the same speed, so they form a class with a clock that counts bytes: a flow is over
//! when its class's clock has advanced by its length. A change costs a step a class, not a step a reader.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Default)]
struct Class {
    limit_bytes_per_s: f64,
    rate_bytes_per_s: f64,
    /// Bytes each reader of the class would have had since the start.
    clock_bytes: f64,
    readers: u32,
    ends: BinaryHeap<Reverse<(u64, u32, u32)>>,
}

#[derive(Clone, Copy, Default)]
struct Reader {
    class: usize,
    end_bytes: f64,
    generation: u32,
}

pub struct Store {
    bytes_per_s: f64,
    reader_bytes_per_s: f64,
    link_bytes_per_s: f64,
    /// By the number of flows that come into the reader's node, less one.
    classes: Vec<Class>,
    readers: Vec<Reader>,
    now_s: f64,
}

impl Store {
    pub fn new(bytes_per_s: f64, reader_bytes_per_s: f64, link_bytes_per_s: f64) -> Self {
        Store {
            bytes_per_s,
            reader_bytes_per_s,
            link_bytes_per_s,
            classes: Vec::new(),
            readers: Vec::new(),
            now_s: 0.0,
        }
    }

    /// Begins a flow of so many bytes into a node with `incoming` flows, this one among them.
    pub fn begin(&mut self, now_s: f64, flow: u32, bytes: f64, incoming: usize) {
        self.advance(now_s);
        if self.readers.len() <= flow as usize {
            self.readers.resize(flow as usize + 1, Reader::default());
        }
        self.enter(flow, bytes, incoming);
        self.share();
    }

    /// Notes that the number of flows into the reader's node changed.
    pub fn relink(&mut self, now_s: f64, flow: u32, incoming: usize) {
        let Reader { class, end_bytes, .. } = self.readers[flow as usize];
        if class == incoming - 1 {
            return;
        }
        self.advance(now_s);
        let rest = end_bytes - self.classes[class].clock_bytes;
        self.classes[class].readers -= 1;
        self.enter(flow, rest, incoming);
        self.share();
    }

    /// Returns when the next flow ends, if the rates stay.
    pub fn next_s(&mut self) -> f64 {
        let now_s = self.now_s;
        let next = |class: &mut Class| class.first_end(&self.readers).map(|(end, _)| now_s + class.seconds_to(end));
        self.classes.iter_mut().filter_map(next).fold(f64::INFINITY, f64::min)
    }

    /// Returns the flow that ends next, now.
    pub fn end(&mut self, now_s: f64) -> u32 {
        self.advance(now_s);
        let mut first: Option<(f64, usize, u32)> = None;
        for (at, class) in self.classes.iter_mut().enumerate() {
            if let Some((end, flow)) = class.first_end(&self.readers) {
                let seconds = class.seconds_to(end);
                if first.is_none_or(|(least, _, _)| seconds < least) {
                    first = Some((seconds, at, flow));
                }
            }
        }
        let (_, class, flow) = first.expect("a flow ends");
        self.classes[class].ends.pop();
        self.classes[class].readers -= 1;
        self.readers[flow as usize].generation += 1;
        self.share();
        flow
    }

    fn enter(&mut self, flow: u32, bytes: f64, incoming: usize) {
        while self.classes.len() < incoming {
            let shared = self.link_bytes_per_s / (self.classes.len() + 1) as f64;
            let limit_bytes_per_s = shared.min(self.reader_bytes_per_s);
            self.classes.push(Class { limit_bytes_per_s, ..Class::default() });
        }
        let class = &mut self.classes[incoming - 1];
        let reader = &mut self.readers[flow as usize];
        *reader = Reader {
            class: incoming - 1,
            end_bytes: class.clock_bytes + bytes.max(0.0),
            generation: reader.generation + 1,
        };
        class.readers += 1;
        class.ends.push(Reverse((reader.end_bytes.to_bits(), flow, reader.generation)));
    }

    fn advance(&mut self, now_s: f64) {
        let passed_s = now_s - self.now_s;
        self.now_s = now_s;
        for class in self.classes.iter_mut().filter(|class| class.readers > 0) {
            class.clock_bytes += passed_s * class.rate_bytes_per_s;
        }
    }

    /// From the tightest limit upwards: a class that cannot use an even share leaves the rest to the others.
    fn share(&mut self) {
        let mut left_bytes_per_s = self.bytes_per_s;
        let mut readers: u32 = self.classes.iter().map(|class| class.readers).sum();
        for class in self.classes.iter_mut().rev().filter(|class| class.readers > 0) {
            class.rate_bytes_per_s = class.limit_bytes_per_s.min(left_bytes_per_s / f64::from(readers));
            left_bytes_per_s -= class.rate_bytes_per_s * f64::from(class.readers);
            readers -= class.readers;
        }
    }
}

impl Class {
    /// Returns where the clock stands when the first flow ends; forgets those that changed class.
    fn first_end(&mut self, readers: &[Reader]) -> Option<(f64, u32)> {
        while let Some(&Reverse((end, flow, generation))) = self.ends.peek() {
            if readers[flow as usize].generation == generation {
                return Some((f64::from_bits(end), flow));
            }
            self.ends.pop();
        }
        None
    }

    fn seconds_to(&self, end_bytes: f64) -> f64 {
        ((end_bytes - self.clock_bytes) / self.rate_bytes_per_s).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Store;

    #[test]
    fn an_even_share_for_all_and_no_more_than_a_reader_may_have() {
        let mut store = Store::new(300.0, 100.0, 125.0);
        store.begin(0.0, 0, 1000.0, 1);
        assert_eq!(store.next_s(), 10.0);
        (1..6).for_each(|flow| store.begin(5.0, flow, 1000.0, 1));
        // Six at 50: the first has 500 left.
        assert_eq!(store.next_s(), 15.0);
        assert_eq!(store.end(15.0), 0);
        // Five at 60, each with 500 left.
        assert!((store.next_s() - (15.0 + 500.0 / 60.0)).abs() < 1e-9);
    }

    #[test]
    fn what_a_crowded_interface_cannot_take_others_get() {
        let mut store = Store::new(150.0, 100.0, 125.0);
        store.begin(0.0, 0, 1000.0, 1);
        store.begin(0.0, 1, 1000.0, 5);
        // 25 for the second, so 100 and not 75 for the first.
        assert_eq!(store.next_s(), 10.0);
        assert_eq!(store.end(10.0), 0);
        store.relink(10.0, 1, 1);
        assert_eq!(store.next_s(), 10.0 + 7.5);
    }
}
