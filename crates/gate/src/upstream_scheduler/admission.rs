//! The beginning of long uploads: each with its application's grant, and so many at a time as the server reads
//! (`concurrency.rs`). Where it reads fewer than there are, the order of beginning divides the server, so it is a fair
//! queue of its own, in which an upload costs its length.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;

use policy::fairness::{Completion, Depth, Kind, Next, Request, Settings, Time};

use super::concurrency::ReadConcurrency;
use super::grant_table::Removed;
use super::{QueueState, RequestQueue, UpstreamScheduler};
use crate::applications::{Applications, add, take};

/// The assumed cost of an upload of unknown length: the difference to its real length is given back.
const UNKNOWN_BYTES: u64 = 32 << 20;

pub(super) struct Uploads {
    pub queue: QueueState,
    concurrency: ReadConcurrency,
}

impl Uploads {
    pub fn new(applications: Rc<Applications>, settings: &Settings) -> Self {
        Uploads {
            queue: QueueState::new(applications, &without_depth(settings)),
            concurrency: ReadConcurrency::default(),
        }
    }

    pub fn apply(&mut self, settings: &Settings, now: Time) {
        self.queue.apply(&without_depth(settings), now);
    }

    fn begin(&mut self, now: Time) {
        while self.concurrency.has_room()
            && let Next::Start { id, .. } = self.queue.scheduler.next(now)
        {
            let length = self.queue.grants.cost_bytes(id);
            self.queue.grants.start(id, now);
            self.concurrency.begin(id, length, now);
        }
    }
}

/// Long uploads of one server, now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UploadCounts {
    /// Most that are to be under way.
    pub limit: u64,
    /// Without those that the server does nothing with.
    pub under_way: u64,
    pub waiting: u64,
}

/// Not the number of bytes is limited, but that of uploads.
fn without_depth(settings: &Settings) -> Settings {
    let kind = match settings.kind {
        Kind::Fifo | Kind::Deadline => settings.kind,
        Kind::Sfq | Kind::SfqD | Kind::Anticipating => Kind::SfqD,
    };
    Settings { kind, depth: Depth::Bytes(u64::MAX), ..settings.clone() }
}

/// A long upload's place among those under way, or in the queue for it. Dropping it makes room for others.
pub(crate) struct Admission {
    queue: Rc<RequestQueue>,
    id: u64,
    is_queued: Cell<bool>,
    sent_bytes: Cell<u64>,
}

impl Admission {
    pub(super) fn queue(queue: &Rc<RequestQueue>, length: Option<u64>, deadline: Option<Time>) -> Admission {
        let upstream = &queue.upstream;
        let now = upstream.clock.now();
        let cost_bytes = length.unwrap_or(UNKNOWN_BYTES);
        let request = Request { id: 0, cost_bytes, deadline, completion: Completion::Served };
        let id = upstream.uploads.borrow_mut().queue.enqueue(&queue.key, request, now);
        add(&queue.application().counters.queued, 1);
        upstream.begin_uploads();
        Admission { queue: queue.clone(), id, is_queued: Cell::new(true), sent_bytes: Cell::new(0) }
    }

    fn upstream(&self) -> &Rc<UpstreamScheduler> {
        &self.queue.upstream
    }

    /// Returns when the upload may begin.
    pub async fn granted(&self) {
        let uploads = &self.upstream().uploads;
        poll_fn(|context| uploads.borrow_mut().queue.grants.poll_started(self.id, context).map(drop)).await;
        self.leave_queue();
    }

    fn leave_queue(&self) {
        if self.is_queued.replace(false) {
            take(&self.queue.application().counters.queued, 1);
        }
    }

    pub fn sent(&self, bytes: u64) {
        self.sent_bytes.set(self.sent_bytes.get() + bytes);
        self.upstream().uploads.borrow_mut().concurrency.sent(self.id, bytes);
    }

    /// Notes that the server has read so much more.
    pub fn read(&self, bytes: u64) {
        let now = self.upstream().clock.now();
        let may_begin = self.upstream().uploads.borrow_mut().concurrency.read(self.id, bytes, now);
        if may_begin {
            self.upstream().begin_uploads();
        }
    }

    /// Notes that the server has not read all its bytes of the upload.
    pub fn not_read(&self) {
        let now = self.upstream().clock.now();
        self.upstream().uploads.borrow_mut().concurrency.not_read(self.id, now);
    }

    /// Whether the server reads others first.
    pub fn is_passed_over(&self) -> bool {
        self.upstream().uploads.borrow().concurrency.is_passed_over(self.id)
    }

    /// Notes that the client is late: others may begin, and this upload goes on when it comes.
    pub fn step_back(&self) {
        self.upstream().uploads.borrow_mut().concurrency.end(self.id);
        self.upstream().begin_uploads();
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.leave_queue();
        let upstream = self.upstream();
        let now = upstream.clock.now();
        let mut uploads = upstream.uploads.borrow_mut();
        let QueueState { scheduler, tree, grants, .. } = &mut uploads.queue;
        let flow = tree.queue_node(scheduler.as_mut(), &self.queue.key);
        match grants.remove(self.id) {
            Removed::Queued => _ = scheduler.withdraw(flow, self.id, now),
            Removed::Started | Removed::Expired => _ = scheduler.complete(flow, self.id, self.sent_bytes.get(), now),
        }
        uploads.concurrency.end(self.id);
        drop(uploads);
        upstream.upload_ended.notify_waiters();
        upstream.begin_uploads();
    }
}

impl UpstreamScheduler {
    pub fn upload_counts(&self) -> UploadCounts {
        let uploads = self.uploads.borrow();
        let (waiting, _) = uploads.queue.grants.counts();
        let (limit, under_way) = (uploads.concurrency.limit() as u64, uploads.concurrency.under_way() as u64);
        UploadCounts { limit, under_way, waiting: waiting as u64 }
    }

    /// Lets uploads begin for which there is room.
    pub(super) fn begin_uploads(&self) {
        self.uploads.borrow_mut().begin(self.clock.now());
    }

    /// Returns when a long upload is over.
    pub async fn an_upload_ends(&self) {
        self.upload_ended.notified().await;
    }

    /// Those that the server does nothing with keep no others from beginning.
    pub(super) fn expire_uploads(&self) {
        let mut uploads = self.uploads.borrow_mut();
        let (waiting, _) = uploads.queue.grants.counts();
        if waiting > 0 {
            uploads.concurrency.expire(self.clock.now(), self.lease_timeout().as_nanos() as u64);
            uploads.begin(self.clock.now());
        }
    }
}
