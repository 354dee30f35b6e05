//! Fuzzing without a fuzzer: golden files, mutated as a seed says, given to a target one after the other.
//!
//! Included by the tests of the crates. An input that makes a target panic is printed with its number; so is the most memory a
//! target took for one input, when that is above its limit.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::path::Path;

use random::Random;

/// One target's share of `cargo test`.
pub const INPUTS: u64 = 20_000;

/// Numbers that decoders trip over.
const EDGES: [u64; 12] =
    [0, 1, 2, 31, 32, 0x7f, 0xff, 0x7fff_ffff, 0xffff_ffff, u64::MAX / 24 + 1, u64::MAX - 1, u64::MAX];

/// Gives `target` the golden files of these names as they are, then mutations of them. `max_bytes` is the memory it
/// may have in use at once.
pub fn fuzz(names: &[&str], inputs: u64, max_bytes: usize, target: fn(&[u8])) {
    let golden: Vec<Vec<u8>> = names.iter().flat_map(|name| read_golden(name)).collect();
    assert!(!golden.is_empty(), "{names:?} are no golden files");
    for (number, input) in (0..inputs).map(|number| (number, mutated(&golden, number))) {
        let note = FailureNote { number, input: &input };
        let used_bytes = memory_used_by(|| target(&input));
        assert!(used_bytes <= max_bytes, "input {number}: {used_bytes} bytes of memory");
        drop(note);
    }
}

/// The golden file of this name, or all in the folder of this name, in order.
fn read_golden(name: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/v0").join(name);
    let read = |path: &Path| fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if !path.is_dir() {
        return vec![read(&path)];
    }
    let entries = fs::read_dir(&path).expect("a folder of golden files can be read");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("its entries too").path()).collect();
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

/// Prints the input when dropped by a panic.
struct FailureNote<'a> {
    number: u64,
    input: &'a [u8],
}

impl Drop for FailureNote<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let hex: String = self.input.iter().take(8192).map(|byte| format!("{byte:02x}")).collect();
            eprintln!("the target failed on input {} of {} bytes: {hex}", self.number, self.input.len());
        }
    }
}

/// Input `number`: the first ones are the golden files themselves.
fn mutated(golden: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut dice = Random::new(number.wrapping_add(1));
    let mut bytes = match golden.get(number as usize) {
        Some(whole) => return whole.clone(),
        None => golden[dice.index(golden.len())].clone(),
    };
    for _ in 0..1 + dice.index(4) {
        mutate(&mut bytes, golden, &mut dice);
    }
    bytes
}

fn mutate(bytes: &mut Vec<u8>, golden: &[Vec<u8>], dice: &mut Random) {
    let at = dice.index(bytes.len() + 1);
    let end = at + dice.index((bytes.len() - at).min(64) + 1);
    let byte = dice.index(256) as u8;
    match dice.index(10) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => drop(bytes.splice(at..at, vec![byte; 1 + dice.index(40)])),
        3 => {
            let other = &golden[dice.index(golden.len())];
            let start = dice.index(other.len() + 1);
            let stop = start + dice.index((other.len() - start).min(200) + 1);
            bytes.splice(at..end, other[start..stop].iter().copied());
        }
        // Fields are mostly aligned to four bytes, and what matters stands mostly near the beginning or the end.
        4..7 => overwrite(bytes, at / 4 * 4, dice),
        7 => overwrite(bytes, dice.index(128) / 4 * 4, dice),
        8 => {
            let near_the_end = bytes.len().saturating_sub(dice.index(256));
            overwrite(bytes, near_the_end / 4 * 4, dice);
        }
        _ => {
            if let Some(found) = bytes.get_mut(at) {
                *found ^= 1 << (byte % 8);
            }
        }
    }
}

/// Puts an edge, or something near it, into 1, 2, 4 or 8 bytes.
fn overwrite(bytes: &mut [u8], at: usize, dice: &mut Random) {
    let number = EDGES[dice.index(EDGES.len())].wrapping_add(dice.index(3) as u64).to_le_bytes();
    let width = 1 << dice.index(4);
    if let Some(field) = bytes.get_mut(at..at + width) {
        field.copy_from_slice(&number[..width]);
    }
}

/// The system's allocator, which knows for each thread how much it has in use and had at most.
pub struct Measured;

thread_local! {
    static USED_BYTES: Cell<isize> = const { Cell::new(0) };
    static MAX_BYTES: Cell<isize> = const { Cell::new(0) };
}

/// The most memory that was in use at once while `run` ran, beyond what was before; of this thread only.
fn memory_used_by(run: impl FnOnce()) -> usize {
    let before = USED_BYTES.get();
    MAX_BYTES.set(before);
    run();
    (MAX_BYTES.get() - before).max(0) as usize
}

fn count(bytes: isize) {
    let used_bytes = USED_BYTES.get() + bytes;
    USED_BYTES.set(used_bytes);
    MAX_BYTES.set(MAX_BYTES.get().max(used_bytes));
}

// SAFETY: every call is handed on to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Measured {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above; `memory` came from the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, bytes) }
    }
}
