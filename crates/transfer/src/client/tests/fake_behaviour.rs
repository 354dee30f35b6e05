//! What a fake node is to do, and what it counted.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

#[derive(Default)]
pub struct Behaviour {
    /// Whether `FlushHint` and `Checkpoint` make data durable.
    pub never_durable: AtomicBool,
    /// Replies go out a few bytes at a time.
    pub split: AtomicBool,
    /// Answers to reads and sizes come late and out of order.
    pub delay: AtomicBool,
    /// Offers get their stamps and no answer.
    pub silent_on_offers: AtomicBool,
    /// Acknowledges and forgets, for measurements.
    pub discard: AtomicBool,
    pub fail_commits: AtomicBool,
    pub fail_opens: AtomicBool,
    /// Reads nothing, sends nothing and lives on.
    pub frozen: AtomicBool,
    /// Freezes when the next `Attach` arrives.
    pub freeze_at_attach: AtomicBool,
    /// Closes the connection instead of answering these, by kind.
    pub close_at: AtomicU32,
    /// Greetings that were answered.
    pub greetings: AtomicU64,
    /// Sends heartbeats, and makes no progress.
    pub stuck: AtomicBool,
    /// Gets work done, but none of these clients'.
    pub busy: AtomicBool,
    /// `FlushHint` is answered as by a stripe set that has failed.
    pub fail_hints: AtomicBool,
    pub written_bytes: AtomicU64,
    /// The rate of a slow link (bytes a second); 0: as fast as it can.
    pub bytes_per_s: AtomicU64,
    pub digest_offers: AtomicU64,
    /// Fingerprints sent in full lists.
    pub offered_names: AtomicU64,
    pub hints: AtomicU64,
    /// The numbers of the moves of shared file pointers.
    pub pointer_moves: Mutex<Vec<u64>>,
    /// Heartbeats of a client that holds a lock.
    pub heard_alive: AtomicU64,
    /// Streams of other processes that remain in its stripe sets.
    pub others: AtomicU32,
    /// The store's own model; none.
    pub model: Mutex<Vec<u8>>,
    pub commits: AtomicU64,
    pub leaves: AtomicU64,
    /// Files that clients reported as not stored, and why.
    pub failures: Mutex<Vec<(String, String)>>,
    /// Silently leaves out half of every read.
    pub cut_reads: AtomicBool,
    /// Bytes that reads were answered with.
    pub read_bytes: AtomicU64,
    /// Reads that were asked for.
    pub reads: AtomicU64,
    /// Reads of more bytes than this get no answer; 0: all do.
    pub held_above: AtomicU64,
    /// The byte of the file that cannot be read.
    pub damaged: Mutex<Option<u64>>,
    /// The connections that reads came over.
    pub read_over: Mutex<BTreeSet<u64>>,
    pub detaches: AtomicU64,
}
