//! Decisions a second on one core, their slowest percentile, and memory a replica.
//!
//! 10⁶ files of four replicas each, 1000 workers, a window of 2500: `cargo run --release --example placement_speed`.
//! A decision is everything one task costs the scheduler: it is submitted, chosen, reads its input in the worker's cache
//! (or fetches it, and something else leaves), ends, and its slot is free again. Memory is what the allocator gave for
//! replicas and the caches' orders, before tasks are submitted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use thalweg_policy::cache::{Eviction, ItemId, WorkerId};
use thalweg_policy::placement::{Assignment, Costs, Rule, Scheduler, Settings, TaskId};

/// The second index fits a core's caches: the difference is what memory costs.
const FILES: [usize; 2] = [1_000_000, 10_000];
const COPIES: usize = 4;
const WORKERS: usize = 1000;
const SLOTS: u32 = 2;
const WINDOW: usize = 2500;
const DECISIONS: usize = 4_000_000;
const FILE_BYTES: u64 = 10_000_000;

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

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as usize % limit
    }
}

fn main() {
    for files in FILES {
        println!("{files} files");
        [Rule::GoodCacheCompute, Rule::Thalweg].into_iter().for_each(|rule| measure(rule, files));
    }
}

fn measure(rule: Rule, files: usize) {
    let mut dice = Dice(1);
    let (mut scheduler, bytes) = filled(rule, files, &mut dice);
    let a_replica = bytes as f64 / (files * COPIES) as f64;
    println!("{:8} {a_replica:.1} bytes a replica ({} MB in all)", rule.name(), bytes / 1_000_000);
    let mut nanos = decide(&mut scheduler, files, &mut dice);
    let seconds = nanos.iter().map(|&nanos| f64::from(nanos)).sum::<f64>() / 1e9;
    nanos.sort_unstable();
    println!(
        "{:8} {:.2} M decisions/s; median {:.2} µs, 99 % within {:.2} µs",
        rule.name(),
        DECISIONS as f64 / seconds / 1e6,
        f64::from(nanos[DECISIONS / 2]) / 1e3,
        f64::from(nanos[DECISIONS / 100 * 99]) / 1e3
    );
}

fn filled(rule: Rule, files: usize, dice: &mut Dice) -> (Scheduler, usize) {
    let costs = Costs {
        store_bytes_per_s: 1e9,
        store_reader_bytes_per_s: 1e8,
        peer_bytes_per_s: 5e7,
        local_bytes_per_s: 1e8,
        link_bytes_per_s: 1.25e8,
    };
    let mut scheduler = Scheduler::new(Settings { rule, window: WINDOW, eviction: Eviction::Lru, costs, seed: 0 });
    let before = ALLOCATED.load(Ordering::Relaxed);
    scheduler.reserve(files, files * COPIES);
    let cache_bytes = (files * COPIES / WORKERS) as u64 * FILE_BYTES * 2;
    (0..files).for_each(|_| _ = scheduler.add_item(FILE_BYTES));
    (0..WORKERS).for_each(|_| _ = scheduler.join(SLOTS, cache_bytes));
    for file in 0..files {
        let mut copies = 0;
        while copies < COPIES {
            let worker = WorkerId(dice.below(WORKERS) as u32);
            copies += usize::from(scheduler.wrote(0.0, worker, ItemId(file as u32)).kept);
        }
    }
    (scheduler, ALLOCATED.load(Ordering::Relaxed) - before)
}

/// Nanoseconds of each decision. The window is kept full, and the slot taken longest ago is freed.
fn decide(scheduler: &mut Scheduler, files: usize, dice: &mut Dice) -> Vec<u32> {
    let mut inputs: Vec<ItemId> = Vec::with_capacity(DECISIONS + WINDOW);
    let mut running: VecDeque<(WorkerId, ItemId)> = VecDeque::new();
    let mut nanos = Vec::with_capacity(DECISIONS);
    let file = |dice: &mut Dice| ItemId(dice.below(files) as u32);
    while scheduler.waiting() < WINDOW {
        submit(scheduler, &mut inputs, file(dice));
        while let Some(assignment) = scheduler.next(0.0) {
            running.push_back(begin(scheduler, &inputs, assignment));
        }
    }
    for step in 0..DECISIONS {
        let next = file(dice);
        let now_s = step as f64 * 1e-6;
        let begun = Instant::now();
        let (worker, item) = running.pop_front().expect("slots are busy");
        if scheduler.index().is_here(worker, item) {
            scheduler.done_with(worker, item);
        }
        scheduler.vacate(worker);
        submit(scheduler, &mut inputs, next);
        while let Some(assignment) = scheduler.next(now_s) {
            running.push_back(begin(scheduler, &inputs, assignment));
        }
        nanos.push(begun.elapsed().as_nanos().min(u128::from(u32::MAX)) as u32);
    }
    nanos
}

fn submit(scheduler: &mut Scheduler, inputs: &mut Vec<ItemId>, item: ItemId) {
    let task = TaskId(inputs.len() as u32);
    inputs.push(item);
    scheduler.submit(0.0, task, &[item]);
}

fn begin(scheduler: &mut Scheduler, inputs: &[ItemId], assignment: Assignment) -> (WorkerId, ItemId) {
    let Assignment { task, worker } = assignment;
    let item = inputs[task.0 as usize];
    if !scheduler.index().is_here(worker, item) {
        let fetch = scheduler.fetch(0.0, worker, item);
        scheduler.fetched(0.0, worker, item, &fetch);
    }
    if scheduler.index().is_here(worker, item) {
        scheduler.read_here(worker, item);
    }
    (worker, item)
}
