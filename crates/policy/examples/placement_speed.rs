//! Decisions a second on one core, their slowest percentile, and memory a replica.
//!
//! 10⁶ files of four replicas each, 1000 workers, a window of 2500: `cargo run --release --example placement_speed`.
//! A *cycle* is everything one task costs the scheduler: it is submitted, chosen, reads its input in the worker's cache
//! (or fetches it, and something else leaves), ends, and its slot is free again. [`Scheduler::next`] is part of it. Once
//! all input is in the caches, which have room; once they are full, and a tenth of the files is in none of them. Memory
//! is what the allocator gave for replicas and the caches' orders, before tasks are submitted. Processor time is what
//! the kernel counts for the thread: on a machine that others use it is less than what the clock shows.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use random::Random;
use thalweg_policy::cache::{Eviction, ItemId, WorkerId};
use thalweg_policy::placement::{Assignment, Costs, Rule, Scheduler, Settings, TaskId};

/// The second index fits a core's caches: the difference is what memory costs.
const FILES: [usize; 2] = [1_000_000, 10_000];
const COPIES: usize = 4;
const WORKERS: usize = 1000;
const SLOTS: u32 = 2;
const WINDOW: usize = 2500;
const CYCLES: usize = 4_000_000;
const FILE_BYTES: u64 = 10_000_000;

#[derive(Clone, Copy, PartialEq)]
enum Caches {
    Roomy,
    Full,
}

struct Counted;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; only a counter is kept beside it.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

fn main() {
    for files in FILES {
        for caches in [Caches::Roomy, Caches::Full] {
            let all =
                if caches == Caches::Roomy { "all input cached" } else { "full caches, a tenth of the files in none" };
            println!("{files} files, {all}");
            [Rule::GoodCacheCompute, Rule::Thalweg].into_iter().for_each(|rule| measure(rule, files, caches));
        }
    }
}

fn measure(rule: Rule, files: usize, caches: Caches) {
    let mut run = Run::new(rule, files, caches);
    run.fill_queue();
    let (begun, begun_processor_s) = (Instant::now(), processor_s());
    (0..CYCLES).for_each(|_| run.cycle());
    let (clock_s, processor_s) = (begun.elapsed().as_secs_f64(), processor_s() - begun_processor_s);
    let nexts = (run.nexts(), run.misses as f64 / run.inputs.len() as f64);
    let mut nanos: Vec<u32> = (0..CYCLES / 4).map(|_| nanos_of(|| run.cycle())).collect();
    nanos.sort_unstable();
    let name = rule.name();
    let a_replica = run.bytes as f64 / run.replicas as f64;
    println!("{name:8} {a_replica:.1} bytes a replica ({} MB in all)", run.bytes / 1_000_000);
    let millions = |seconds: f64| CYCLES as f64 / seconds / 1e6;
    println!(
        "{name:8} {:.2} M cycles/s by the clock, {:.2} M by processor time; median {:.2} µs, 99 % within {:.2} µs",
        millions(clock_s),
        millions(processor_s),
        f64::from(nanos[nanos.len() / 2]) / 1e3,
        f64::from(nanos[nanos.len() / 100 * 99]) / 1e3
    );
    println!("{name:8} {:.2} M decisions/s in next() alone; {:.3} of inputs fetched", nexts.0 / 1e6, nexts.1);
}

/// Returns the kernel's count of this thread's processor time.
fn processor_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts it");
    text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).expect("nanoseconds come first") / 1e9
}

fn nanos_of(act: impl FnOnce()) -> u32 {
    let begun = Instant::now();
    act();
    begun.elapsed().as_nanos().min(u128::from(u32::MAX)) as u32
}

struct Run {
    scheduler: Scheduler,
    dice: Random,
    files: usize,
    replicas: usize,
    bytes: usize,
    inputs: Vec<ItemId>,
    /// Where each task runs, and its pinned item there.
    running: VecDeque<(WorkerId, Option<ItemId>)>,
    misses: usize,
    now_s: f64,
}

impl Run {
    fn new(rule: Rule, files: usize, caches: Caches) -> Self {
        let costs = Costs {
            store_bytes_per_s: 1e9,
            store_reader_bytes_per_s: 1e8,
            peer_bytes_per_s: 5e7,
            local_bytes_per_s: 1e8,
            link_bytes_per_s: 1.25e8,
        };
        let mut scheduler = Scheduler::new(Settings { rule, window: WINDOW, eviction: Eviction::Lru, costs, seed: 0 });
        let before = ALLOCATED.load(Ordering::Relaxed);
        let cached = if caches == Caches::Roomy { files } else { files / 10 * 9 };
        let replicas = cached * COPIES;
        scheduler.reserve(files, replicas);
        let cache_bytes = (replicas / WORKERS) as u64 * FILE_BYTES * if caches == Caches::Roomy { 2 } else { 1 };
        (0..files).for_each(|_| _ = scheduler.add_item(FILE_BYTES));
        (0..WORKERS).for_each(|_| _ = scheduler.join(SLOTS, cache_bytes));
        let mut dice = Random::new(1);
        for file in 0..cached {
            let mut copies = 0;
            while copies < COPIES {
                let worker = WorkerId(dice.index(WORKERS) as u32);
                copies += usize::from(scheduler.wrote(0.0, worker, ItemId(file as u32)).kept);
            }
        }
        let bytes = ALLOCATED.load(Ordering::Relaxed) - before;
        let (inputs, running) = (Vec::with_capacity(2 * CYCLES), VecDeque::new());
        Run { scheduler, dice, files, replicas, bytes, inputs, running, misses: 0, now_s: 0.0 }
    }

    /// The window is full and no slot is free; the slot taken longest ago will be the first.
    fn fill_queue(&mut self) {
        while self.scheduler.waiting() < WINDOW {
            self.submit();
            while self.begin() {}
        }
    }

    /// Ends a task, submits another, and begins all that can begin.
    fn cycle(&mut self) {
        self.end();
        self.submit();
        while self.begin() {}
    }

    fn submit(&mut self) {
        let item = ItemId(self.dice.index(self.files) as u32);
        self.scheduler.submit(self.now_s, TaskId(self.inputs.len() as u32), &[item]);
        self.inputs.push(item);
    }

    fn begin(&mut self) -> bool {
        let Some(assignment) = self.scheduler.next(self.now_s) else { return false };
        self.read(assignment);
        true
    }

    fn read(&mut self, Assignment { task, worker }: Assignment) {
        let item = self.inputs[task.0 as usize];
        if !self.scheduler.index().is_here(worker, item) {
            let fetch = self.scheduler.fetch(self.now_s, worker, item);
            self.scheduler.fetched(self.now_s, worker, item, &fetch);
            self.misses += 1;
        }
        let is_here = self.scheduler.index().is_here(worker, item);
        if is_here {
            self.scheduler.read_here(worker, item);
        }
        self.running.push_back((worker, is_here.then_some(item)));
    }

    fn end(&mut self) {
        self.now_s += 1e-6;
        let (worker, pinned) = self.running.pop_front().expect("slots are busy");
        if let Some(item) = pinned {
            self.scheduler.done_with(worker, item);
        }
        self.scheduler.vacate(worker);
    }

    /// Decisions a second of `next` alone; the cost of reading the time is deducted.
    fn nexts(&mut self) -> f64 {
        let (mut nanos, mut decisions, mut asked) = (0, 0, 0);
        for _ in 0..CYCLES / 4 {
            self.end();
            self.submit();
            loop {
                let begun = Instant::now();
                let assignment = self.scheduler.next(self.now_s);
                nanos += begun.elapsed().as_nanos();
                asked += 1;
                let Some(assignment) = assignment else { break };
                decisions += 1;
                self.read(assignment);
            }
        }
        let idle: u128 = (0..asked).map(|_| Instant::now().elapsed().as_nanos()).sum();
        f64::from(decisions) * 1e9 / nanos.saturating_sub(idle).max(1) as f64
    }
}
