//! Caches against Belady's optimum, and the index against plain maps.

use std::collections::{BTreeMap, BTreeSet};

use random::Random;

use super::{Eviction, Holding, Index, ItemId, WorkerId};

/// Misses of one cache of `capacity` items of one byte.
fn misses(eviction: Eviction, capacity: u64, items: usize, trace: &[usize]) -> usize {
    let mut index = Index::new(eviction, 7);
    for _ in 0..items {
        index.add_item(1);
    }
    let worker = index.add_worker(capacity);
    trace.iter().filter(|&&item| miss(&mut index, worker, ItemId(item as u32))).count()
}

fn miss(index: &mut Index, worker: WorkerId, item: ItemId) -> bool {
    if index.is_here(worker, item) {
        index.touch(worker, item);
        return false;
    }
    while index.is_crowded(worker, item) {
        let victim = index.victim(worker, 1, |_, _| 0).expect("nothing is pinned");
        index.remove(worker, victim);
    }
    index.admit(worker, item, Holding::Here);
    true
}

/// Belady (1966): the one needed last goes. No order of leaving has fewer misses.
fn fewest_misses(capacity: usize, trace: &[usize]) -> usize {
    let mut held = BTreeSet::new();
    let mut misses = 0;
    for (at, item) in trace.iter().enumerate() {
        if held.contains(item) {
            continue;
        }
        misses += 1;
        if held.len() == capacity {
            let next_use = |item: &usize| trace[at..].iter().position(|next| next == item).unwrap_or(usize::MAX);
            let last = *held.iter().max_by_key(|item| next_use(item)).expect("the cache is full");
            held.remove(&last);
        }
        held.insert(*item);
    }
    misses
}

/// Alternately uniform, skewed and cyclic.
fn trace(dice: &mut Random, items: usize, length: usize) -> Vec<usize> {
    let kind = dice.index(3);
    (0..length)
        .map(|at| match kind {
            0 => dice.index(items),
            1 => dice.index(items).min(dice.index(items)).min(dice.index(items)),
            _ => at % items,
        })
        .collect()
}

/// The source claims O(N·M) for N stores of M objects: here one store. Sleator and Tarjan (1985) give LRU and FIFO of
/// k a bound of k / (k − h + 1) against an optimum of h, and h for the first fill.
#[test]
fn no_eviction_beats_belady_and_lru_and_fifo_keep_their_competitive_bound() {
    for seed in 0..120 {
        let mut dice = Random::new(seed);
        let (items, k) = (4 + dice.index(30), 2 + dice.index(12));
        let trace = trace(&mut dice, items, 400);
        let optimum = fewest_misses(k, &trace);
        for eviction in Eviction::ALL {
            let misses = misses(eviction, k as u64, items, &trace);
            assert!(misses >= optimum, "seed {seed}: {eviction:?} {misses} beats the optimum {optimum}");
            assert!(misses <= items * k * optimum, "seed {seed}: {eviction:?} {misses} over N·M × {optimum}");
            for h in 1..=k {
                if matches!(eviction, Eviction::Lru | Eviction::Fifo) {
                    let bound = k as f64 / (k - h + 1) as f64 * fewest_misses(h, &trace) as f64 + h as f64;
                    assert!(misses as f64 <= bound, "seed {seed}: {eviction:?} {misses} over {bound}, k {k} h {h}");
                }
            }
        }
    }
}

/// Ours puts off the heap's work until something must leave: the order must be that of a list all the same.
#[test]
fn lru_is_a_list_with_the_last_used_at_its_end() {
    for seed in 0..60 {
        let mut dice = Random::new(seed);
        let (items, capacity) = (2 + dice.index(40), 1 + dice.index(20));
        let trace = trace(&mut dice, items, 500);
        let (mut list, mut expected): (Vec<usize>, usize) = (Vec::new(), 0);
        for &item in &trace {
            let before = list.len();
            list.retain(|held| *held != item);
            expected += usize::from(before == list.len());
            list.push(item);
            if list.len() > capacity {
                list.remove(0);
            }
        }
        assert_eq!(misses(Eviction::Lru, capacity as u64, items, &trace), expected, "seed {seed}");
    }
}

#[test]
fn a_cyclic_replay_leaves_lru_nothing() {
    let trace: Vec<usize> = (0..400).map(|at| at % 40).collect();
    assert_eq!(misses(Eviction::Lru, 39, 40, &trace), 400);
    assert!(misses(Eviction::Random, 39, 40, &trace) < 150);
}

#[test]
fn lfu_keeps_what_is_used_often_and_fifo_does_not() {
    let mut trace = vec![0; 10];
    trace.extend(1..10);
    trace.push(0);
    assert_eq!(misses(Eviction::Lfu, 3, 10, &trace), 10);
    assert_eq!(misses(Eviction::Fifo, 3, 10, &trace), 11);
}

#[test]
fn size_aware_lets_the_large_go_for_the_small() {
    let mut index = Index::new(Eviction::SizeAware, 0);
    let items: Vec<ItemId> = [60, 10, 30, 20].into_iter().map(|bytes| index.add_item(bytes)).collect();
    let worker = index.add_worker(100);
    for &item in &items {
        miss(&mut index, worker, item);
    }
    assert!(!index.is_here(worker, items[0]));
    assert!(items[1..].iter().all(|&item| index.is_here(worker, item)));
}

/// The index against maps, with random admissions, uses, arrivals, pins and departures.
#[test]
fn the_index_agrees_with_plain_maps() {
    for seed in 0..40 {
        let mut dice = Random::new(seed);
        let mut index = Index::new(Eviction::ALL[dice.index(5)], seed);
        let mut sizes: Vec<u64> = (0..20).map(|_| 1 + dice.index(9) as u64).collect();
        for &bytes in &sizes {
            index.add_item(bytes);
        }
        let mut model: Vec<BTreeMap<u32, Holding>> = vec![BTreeMap::new(); 12];
        for _ in 0..model.len() {
            index.add_worker(70);
        }
        for step in 0..600 {
            let (at, item) = (dice.index(12), dice.index(20) as u32);
            act(&mut dice, &mut index, &mut model[at], WorkerId(at as u32), ItemId(item));
            if dice.index(16) == 0 {
                sizes[item as usize] = dice.index(12) as u64;
                index.resize(ItemId(item), sizes[item as usize]);
            }
            compare(&index, &model, &sizes, ItemId(item), &format!("seed {seed} step {step}"));
        }
    }
}

fn act(dice: &mut Random, index: &mut Index, held: &mut BTreeMap<u32, Holding>, worker: WorkerId, item: ItemId) {
    match (held.get(&item.0), dice.index(8)) {
        (None, 0) => {
            let mut gone: Vec<u32> = index.remove_worker(worker).iter().map(|item| item.0).collect();
            gone.sort_unstable();
            assert_eq!(gone, held.keys().copied().collect::<Vec<_>>());
            held.clear();
        }
        (None, roll) if index.has_room(worker, item) => {
            while index.is_crowded(worker, item) {
                let victim = index.victim(worker, 4, |_, item| (item.0 % 3) as u8).expect("there is room");
                assert_eq!(held.remove(&victim.0), Some(Holding::Here), "what arrives is pinned");
                index.remove(worker, victim);
            }
            let holding = if roll < 4 { Holding::Arriving } else { Holding::Here };
            index.admit(worker, item, holding);
            held.insert(item.0, holding);
        }
        (Some(Holding::Arriving), _) => {
            index.arrived(worker, item);
            held.insert(item.0, Holding::Here);
        }
        (Some(Holding::Here), 0) => {
            index.remove(worker, item);
            held.remove(&item.0);
        }
        (Some(Holding::Here), _) => index.touch(worker, item),
        (None, _) => {}
    }
}

fn compare(index: &Index, model: &[BTreeMap<u32, Holding>], sizes: &[u64], item: ItemId, when: &str) {
    let mut copies = [0, 0];
    for (at, held) in model.iter().enumerate() {
        let worker = WorkerId(at as u32);
        let holding = held.get(&item.0).copied();
        assert_eq!(index.holding(worker, item), holding, "{when}");
        assert_eq!(index.holders(item).find(|(holder, _)| *holder == worker).map(|found| found.1), holding, "{when}");
        assert_eq!(index.used_bytes(worker), held.keys().map(|&item| sizes[item as usize]).sum::<u64>(), "{when}");
        copies[0] += usize::from(holding == Some(Holding::Here));
        copies[1] += usize::from(holding == Some(Holding::Arriving));
    }
    let distinct: BTreeSet<u32> = model.iter().flat_map(|held| held.keys().copied()).collect();
    assert_eq!(index.distinct_bytes(), distinct.iter().map(|&item| sizes[item as usize]).sum::<u64>(), "{when}");
    assert_eq!([index.copies(item) as usize, index.arriving(item) as usize], copies, "{when}");
}

#[test]
fn what_turns_out_large_leaves_first_by_size_and_what_is_pinned_counts_as_large() {
    let mut index = Index::new(Eviction::SizeAware, 0);
    let items: Vec<ItemId> = (0..3).map(|_| index.add_item(10)).collect();
    let worker = index.add_worker(100);
    items.iter().for_each(|&item| index.admit(worker, item, Holding::Here));
    index.pin(worker, items[2]);
    index.resize(items[1], 50);
    index.resize(items[2], 60);
    assert_eq!(index.victim(worker, 1, |_, _| 0), Some(items[1]));
    assert_eq!((index.used_bytes(worker), index.has_room(worker, items[1])), (120, false));
}
