//! A request that was sent ahead of the program, and its answer, which reads take their bytes from.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::read_parts::ReadBytes;

/// Called once with the answer; with nothing where the request failed: its bytes are to be asked for again.
type Reader = Box<dyn FnOnce(Option<&ReadBytes>) + Send>;

pub(super) struct RequestAhead {
    /// Whether a read waits for the answer: until then no node is given up for it.
    pub is_awaited: Arc<AtomicBool>,
    content: Mutex<Content>,
    _charge: Charge,
}

enum Content {
    UnderWay(Vec<Reader>),
    Arrived(Option<Arc<ReadBytes>>),
}

impl RequestAhead {
    pub fn new(charge: Charge) -> Arc<Self> {
        let content = Mutex::new(Content::UnderWay(Vec::new()));
        Arc::new(RequestAhead { is_awaited: Arc::default(), content, _charge: charge })
    }

    pub fn has_arrived(&self) -> bool {
        matches!(*self.content(), Content::Arrived(_))
    }

    /// Calls `reader` now, or when the answer is there.
    pub fn then(&self, reader: Reader) {
        let arrived = match &mut *self.content() {
            Content::UnderWay(readers) => {
                self.is_awaited.store(true, Ordering::SeqCst);
                return readers.push(reader);
            }
            Content::Arrived(bytes) => bytes.clone(),
        };
        reader(arrived.as_deref());
    }

    pub fn arrive(&self, bytes: Option<ReadBytes>) {
        let bytes = bytes.map(Arc::new);
        let before = std::mem::replace(&mut *self.content(), Content::Arrived(bytes.clone()));
        let Content::UnderWay(readers) = before else { unreachable!("a request is answered once") };
        readers.into_iter().for_each(|reader| reader(bytes.as_deref()));
    }

    fn content(&self) -> std::sync::MutexGuard<'_, Content> {
        self.content.lock().expect("nothing panics while it holds an answer")
    }
}

/// The memory of a process for what was asked for ahead: charged until the bytes are read or dropped.
pub(super) struct ReadAheadMemory {
    limit_bytes: u64,
    used_bytes: AtomicU64,
}

/// Bytes of the memory, until it is dropped.
pub(super) struct Charge {
    memory: Arc<ReadAheadMemory>,
    bytes: u64,
}

impl ReadAheadMemory {
    pub fn new(limit_bytes: u64) -> Self {
        ReadAheadMemory { limit_bytes, used_bytes: AtomicU64::new(0) }
    }

    pub fn room_bytes(&self) -> u64 {
        self.limit_bytes - self.used_bytes.load(Ordering::SeqCst)
    }

    /// Charges the bytes if there is room.
    pub fn charge(self: &Arc<Self>, bytes: u64) -> Option<Charge> {
        let charged = |used: u64| (used + bytes <= self.limit_bytes).then_some(used + bytes);
        let is_charged = self.used_bytes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, charged).is_ok();
        is_charged.then(|| Charge { memory: self.clone(), bytes })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.used_bytes.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_charged_until_the_request_is_dropped() {
        let memory = Arc::new(ReadAheadMemory::new(1000));
        let request = RequestAhead::new(memory.charge(700).unwrap());
        assert!(memory.charge(301).is_none());
        let under_way = request.clone();
        drop(request);
        assert_eq!(memory.room_bytes(), 300);
        under_way.arrive(None);
        drop(under_way);
        assert_eq!(memory.room_bytes(), 1000);
    }

    #[test]
    fn readers_get_the_answer_whether_they_come_before_or_after_it() {
        let memory = Arc::new(ReadAheadMemory::new(1000));
        let request = RequestAhead::new(memory.charge(3).unwrap());
        let seen: Arc<Mutex<Vec<Option<Vec<u8>>>>> = Arc::default();
        let reader = || -> Reader {
            let seen = seen.clone();
            Box::new(move |arrived| seen.lock().unwrap().push(arrived.map(|arrived| arrived.bytes.clone())))
        };
        assert!(!request.is_awaited.load(Ordering::SeqCst));
        request.then(reader());
        assert!(request.is_awaited.load(Ordering::SeqCst) && !request.has_arrived());
        request.arrive(Some(ReadBytes { bytes: vec![1, 2, 3], file_bytes: 3 }));
        request.then(reader());
        assert_eq!(*seen.lock().unwrap(), [Some(vec![1, 2, 3]), Some(vec![1, 2, 3])]);
    }
}
