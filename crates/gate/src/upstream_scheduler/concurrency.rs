//! How many long uploads a server reads at a time, learnt from what it reads.
//!
//! Some servers read all their connections, others as many as they have workers, each to the end of its object. Before
//! the latter, objects that have begun beside those lie unread, and the server decides on their order. So uploads begin
//! as long as the server reads all that have begun: the limit doubles when it has read a good part of each of as many as
//! the limit allows, which cannot be where it reads fewer. It falls when some are passed over while others are read to
//! their ends.

use std::collections::HashMap;

use policy::fairness::Time;

/// One is read while the next lies ready.
const MIN_LIMIT: usize = 2;
/// An upload is read when so much of it was, or half of it: a server's kernel may take as much unread.
const MIN_READ_BYTES: u64 = 1 << 20;
/// More than what may have been read and not been announced.
const MIN_UNREAD_BYTES: u64 = 160 << 10;
/// Where nothing is read of any upload for so long, others may begin.
const STALL_NS: u64 = 500_000_000;
/// Of objects that are longer, this is what others get while one is passed over.
const MAX_PASSED_BYTES: u64 = 32 << 20;
/// The most that servers read of one connection before they go on to another.
const TURN_BYTES: u64 = 512 << 10;

pub(super) struct ReadConcurrency {
    limit: usize,
    uploads: HashMap<u64, Upload>,
    /// Bytes read of all uploads ever, and when the last were.
    read_bytes: u64,
    read_at: Time,
}

struct Upload {
    length: u64,
    read_bytes: u64,
    /// Bytes sent since it was last seen to be read, and what had been read of all uploads then.
    unread_bytes: u64,
    passed_from: u64,
    /// The bytes that had been read of all when this one was last seen not to be read.
    passed_until: u64,
    /// When it was last read, and last seen not to be.
    progress_at: Time,
    not_read_at: Time,
}

impl Upload {
    fn is_read(&self) -> bool {
        self.read_bytes >= MIN_READ_BYTES.min(self.length / 2)
    }

    /// So much was read of others while it was seen not to be. A server that has begun to read it is slow instead.
    fn is_passed_over(&self, bytes: u64) -> bool {
        self.read_bytes == 0 && self.passed_until - self.passed_from >= bytes
    }

    /// Others were read for most of an object meanwhile.
    fn waits_for_another_to_end(&self) -> bool {
        self.unread_bytes >= MIN_UNREAD_BYTES && self.is_passed_over(self.length.min(MAX_PASSED_BYTES) / 4 * 3)
    }
}

impl Default for ReadConcurrency {
    fn default() -> Self {
        ReadConcurrency { limit: MIN_LIMIT, uploads: HashMap::new(), read_bytes: 0, read_at: Time(0) }
    }
}

impl ReadConcurrency {
    /// Returns the most uploads that may be under way.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns those that count.
    pub fn under_way(&self) -> usize {
        self.uploads.len()
    }

    pub fn has_room(&self) -> bool {
        self.uploads.len() < self.limit
    }

    pub fn begin(&mut self, id: u64, length: u64, now: Time) {
        let passed_from = self.read_bytes;
        let upload = Upload {
            length,
            read_bytes: 0,
            unread_bytes: 0,
            passed_from,
            passed_until: passed_from,
            progress_at: now,
            not_read_at: now,
        };
        self.uploads.insert(id, upload);
    }

    pub fn sent(&mut self, id: u64, bytes: u64) {
        if let Some(upload) = self.uploads.get_mut(&id) {
            upload.unread_bytes += bytes;
        }
    }

    /// Notes that the server has not read all its bytes of it.
    pub fn not_read(&mut self, id: u64, now: Time) {
        if let Some(upload) = self.uploads.get_mut(&id) {
            (upload.passed_until, upload.not_read_at) = (self.read_bytes, now);
        }
    }

    /// Whether the server reads others first: more of them than one round of all takes.
    pub fn is_passed_over(&self, id: u64) -> bool {
        let turns_bytes = self.uploads.len() as u64 * TURN_BYTES;
        self.uploads.get(&id).is_none_or(|upload| upload.is_passed_over(turns_bytes))
    }

    /// Notes that the server has read so much more. Returns whether others may begin now.
    pub fn read(&mut self, id: u64, bytes: u64, now: Time) -> bool {
        let Some(upload) = self.uploads.get_mut(&id) else { return false };
        let was_read = upload.is_read();
        (self.read_bytes, self.read_at) = (self.read_bytes + bytes, now);
        upload.read_bytes += bytes;
        (upload.unread_bytes, upload.progress_at) = (0, now);
        (upload.passed_from, upload.passed_until) = (self.read_bytes, self.read_bytes);
        let crossed = !was_read && upload.is_read();
        let has_proof = crossed && !self.has_room() && self.uploads.values().all(Upload::is_read);
        if has_proof {
            self.limit = 2 * self.uploads.len();
        }
        has_proof
    }

    /// Notes that the upload is over, or is not waited for any longer.
    pub fn end(&mut self, id: u64) {
        if self.uploads.contains_key(&id) {
            let is_passed_over =
                |(id, upload): &(&u64, &Upload)| self.is_passed_over(**id) && upload.waits_for_another_to_end();
            let passed_over = self.uploads.iter().filter(is_passed_over).count();
            if passed_over > 1 {
                self.limit = (self.uploads.len() - passed_over + 1).max(MIN_LIMIT);
                // One of those passed over is read next, though nothing shows it yet.
                self.uploads.values_mut().for_each(|upload| upload.passed_from = upload.passed_until);
            }
            self.uploads.remove(&id);
        }
    }

    /// Those of which nothing was read for too long count no longer; sooner where nothing is read of any.
    pub fn expire(&mut self, now: Time, timeout_ns: u64) {
        let is_stalled = now.since(self.read_at) > STALL_NS;
        let is_stale = |upload: &Upload| {
            let refused_ns = upload.not_read_at.since(upload.progress_at);
            now.since(upload.progress_at) > timeout_ns || is_stalled && refused_ns > STALL_NS
        };
        let stale = self.uploads.iter().filter(|(_, upload)| is_stale(upload));
        let stale: Vec<u64> = stale.map(|(id, _)| *id).collect();
        stale.into_iter().for_each(|id| self.end(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const LENGTH: u64 = 4 * MIB;
    const SLICE: u64 = 64 << 10;

    /// A server with so many workers and clients that always have another object; returns the most under way in the
    /// end.
    fn limit_before(workers: usize, clients: u64, objects: u64) -> ReadConcurrency {
        let mut concurrency = ReadConcurrency::default();
        serve(&mut concurrency, workers, clients, objects);
        concurrency
    }

    fn serve(concurrency: &mut ReadConcurrency, workers: usize, clients: u64, objects: u64) {
        let now = Time(0);
        let (mut served, mut waiting) = (Vec::<(u64, u64)>::new(), Vec::new());
        let (mut begun, mut ended) = (0, 0);
        while ended < objects {
            while begun < ended + clients && concurrency.has_room() {
                concurrency.begin(begun, LENGTH, now);
                concurrency.sent(begun, 3 * SLICE);
                waiting.push(begun);
                begun += 1;
            }
            while served.len() < workers && !waiting.is_empty() {
                served.push((waiting.remove(0), LENGTH));
            }
            waiting.iter().for_each(|id| concurrency.not_read(*id, now));
            for (id, left) in &mut served {
                concurrency.sent(*id, SLICE);
                concurrency.read(*id, SLICE, now);
                *left -= SLICE;
            }
            let done: Vec<_> = served.iter().filter(|(_, left)| *left == 0).map(|(id, _)| *id).collect();
            done.iter().for_each(|id| concurrency.end(*id));
            served.retain(|(_, left)| *left > 0);
            ended += done.len() as u64;
        }
        concurrency.uploads.clear();
    }

    #[test]
    fn a_server_that_reads_all_its_connections_is_given_all_uploads() {
        assert!(limit_before(1000, 16, 100).limit() >= 16);
    }

    #[test]
    fn a_server_with_few_workers_is_given_little_more_than_it_reads() {
        for workers in [1, 2, 4, 8, 16] {
            let limit = limit_before(workers, 40, 400).limit();
            assert!((workers + 1..=2 * workers).contains(&limit), "{workers} workers, {limit} uploads");
        }
    }

    #[test]
    fn a_server_that_reads_fewer_than_before_is_given_fewer() {
        let mut concurrency = limit_before(1000, 16, 100);
        serve(&mut concurrency, 2, 16, 100);
        assert!(concurrency.limit() <= 4, "{}", concurrency.limit());
    }

    #[test]
    fn an_upload_of_which_nothing_is_read_makes_room_after_a_while() {
        let mut concurrency = ReadConcurrency::default();
        (0..2).for_each(|id| concurrency.begin(id, LENGTH, Time(0)));
        let timeout_ns = 10 * STALL_NS;
        concurrency.read(0, SLICE, Time(timeout_ns));
        concurrency.expire(Time(timeout_ns), timeout_ns);
        assert!(!concurrency.has_room());
        concurrency.expire(Time(timeout_ns + 1), timeout_ns);
        assert!(concurrency.has_room());
        concurrency.end(1);
        assert_eq!(concurrency.uploads.len(), 1);
        let stalled = Time(timeout_ns + STALL_NS + 1);
        concurrency.expire(stalled, timeout_ns);
        assert_eq!(concurrency.uploads.len(), 1, "all that was sent may have been read");
        concurrency.not_read(0, stalled);
        concurrency.expire(stalled, timeout_ns);
        assert_eq!(concurrency.uploads.len(), 0, "nothing is read of any");
    }
}
