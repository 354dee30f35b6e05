//! From the server to the client: answers and their heads, in the order of their requests.
//!
//! A request's grant counts until its answer comes; a server that does not answer for a while loses it.

use std::future::{Future, pending};
use std::io;
use std::pin::pin;
use std::time::Duration;

use crate::flows::{HUNG_TIMEOUT, Unanswered};
use crate::s3::body::Body;
use crate::s3::connection::{Connection, End};
use crate::s3::download::Download;
use crate::s3::head::{self, Found, Method, Response};
use crate::s3::pass::{Broken, Stopped};
use crate::s3::pending::Asked;
use crate::s3::request_grant::RequestGrant;
use crate::s3::requests::SMALL_BODY;
use crate::s3::upload::is_long;
use crate::socket::SLICE;
use crate::upstream_scheduler::RequestQueue;
use crate::upstream_scheduler::reserve::Progress;
use crate::wire::Seen;

/// How long the head of a short answer is kept for its body.
const TOGETHER: Duration = Duration::from_millis(2);

/// The next event from a server; its bytes are in the buffer.
enum Next {
    Head(Response),
    Strange,
    End,
}

impl Connection {
    pub(super) async fn responses(&self) -> End {
        self.server.dialled().await;
        let end = self.answers().await;
        self.pending.close();
        end
    }

    async fn answers(&self) -> End {
        let mut head = Vec::new();
        loop {
            let next = match self.next_response(&mut head).await {
                Ok(next) => next,
                Err(_) => return End::Broken(Broken::Reading),
            };
            let is_followed = matches!(&next, Next::Head(response) if self.is_followed(response).await);
            if self.write_head(&head, is_followed).await.is_err() {
                return End::Broken(Broken::Writing);
            }
            let passed = match next {
                Next::Head(response) if response.is_interim() => {
                    self.has_continued.set(true);
                    Ok(())
                }
                Next::Head(response) => {
                    self.is_answering.set(true);
                    let passed = self.response(response).await;
                    self.is_answering.set(false);
                    passed
                }
                Next::Strange => {
                    let queue = self.last_queue();
                    self.download(&mut Body::Rest, Download { queue, request_grant: None, deadline: None }).await
                }
                Next::End if head.is_empty() => return End::Clean,
                Next::End => return End::Cut,
            };
            if let Err(end) = passed {
                return end;
            }
        }
    }

    /// A client that does not take its answer holds no grant.
    async fn write_head(&self, head: &[u8], is_followed: bool) -> io::Result<()> {
        let written = async {
            match is_followed {
                true => self.client.write_ahead(head).await,
                false => self.client.write_all(head).await,
            }
        };
        self.or_release(written).await
    }

    /// Does this; a client that keeps it from being done holds no grant after a while.
    pub(super) async fn or_release<T>(&self, act: impl Future<Output = T>) -> T {
        let mut act = pin!(act);
        let clock = self.upstream().clock();
        let queue = self.last_queue();
        let timeout = &queue.application().client_timeout;
        tokio::select! {
            biased;
            done = &mut act => return done,
            () = clock.sleep_about(timeout.get(clock.now())) => {
                timeout.note_late(clock.now());
                self.pending.release();
            }
        }
        act.await
    }

    /// Whether a first slice of the body has come and has its grant. If it is all of the body it is waited for: the
    /// client can do little with its head alone.
    async fn is_followed(&self, response: &Response) -> bool {
        let declared = response.body.declared().unwrap_or(0);
        if declared == 0 || !self.pending.holds_grant() {
            return false;
        }
        let first = declared.min(SLICE as u64) as usize;
        if declared <= SLICE as u64 {
            // The next read reports the error.
            let _ = self.server.gathers(first, TOGETHER, self.upstream().clock()).await;
        }
        self.server.has(first)
    }

    /// Takes a whole head from the server, and no byte of what follows.
    async fn next_response(&self, head: &mut Vec<u8>) -> io::Result<Next> {
        head.clear();
        head.shrink_to(head::KEPT);
        loop {
            self.answer_begins().await?;
            let to = self.pending.first_method();
            let seen = self.server.look(head::LOOKED_AT, |bytes| {
                head::gather(head, bytes, |bytes| to.map_or(Found::Strange, |method| head::response(bytes, method)))
            });
            match seen.await? {
                Seen::Nothing | Seen::Some(Found::Part) => {}
                Seen::End => return Ok(Next::End),
                Seen::Some(Found::Strange) => return Ok(Next::Strange),
                Seen::Some(Found::Head(_, response)) => return Ok(Next::Head(response)),
            }
        }
    }

    /// Returns when the server has sent something. A request that it makes no progress with for a while loses what it
    /// was granted.
    async fn answer_begins(&self) -> io::Result<()> {
        let clock = self.upstream().clock();
        loop {
            tokio::select! {
                biased;
                holds = self.server.holds(1) => return holds,
                () = self.pending.added() => {}
                () = self.stands_still(), if self.pending.holds_grant() => self.pending.note_late(clock.now()),
                () = self.hangs() => self.pending.give_up(),
            }
        }
    }

    /// Returns when the request has been late for too long, however often this is asked meanwhile.
    async fn hangs(&self) {
        let Some(since) = self.pending.late_since() else { return pending().await };
        let clock = self.upstream().clock();
        clock.sleep_about(HUNG_TIMEOUT.saturating_sub(Duration::from_nanos(clock.now().since(since)))).await;
    }

    /// Returns when the server has made no progress with the request for too long.
    async fn stands_still(&self) {
        let clock = self.upstream().clock();
        loop {
            let last = self.send_window.with_progress(|progress| progress.last());
            let stood = Duration::from_nanos(clock.now().since(last));
            let Some(left) = self.upstream().request_timeout().checked_sub(stood).filter(|left| !left.is_zero()) else {
                return;
            };
            clock.sleep_about(left).await;
            if self.is_sending.get() && self.send_window.under_way() == 0 {
                // It is not the server that is waited for.
                self.send_window.with_progress(|progress| progress.resume(clock.now()));
            }
            if self.send_window.with_progress(|progress| progress.last()) > last {
                self.pending.progress();
            }
        }
    }

    pub(super) fn begin_progress(&self) {
        let now = self.upstream().clock().now();
        self.send_window.with_progress(|progress| *progress = Progress::begin(now));
    }

    async fn response(&self, response: Response) -> Result<(), End> {
        let is_tunnel = response.status == 101 || response.body == Body::Rest;
        let Some(asked) = self.pending.answer(response.status == 101) else { return Ok(()) };
        let Asked {
            method,
            queue,
            request_grant,
            unanswered,
            outstanding,
            upload,
            is_alone,
            deadline,
            began,
            sent,
            ..
        } = asked;
        unanswered.iter().for_each(Unanswered::note_answer);
        drop((unanswered, outstanding));
        let now = self.upstream().clock().now();
        self.upstream().note_request(now.since(sent));
        let mut request_grant = request_grant;
        if let Some(length) = upload {
            request_grant.take().into_iter().for_each(RequestGrant::complete);
            self.send_window.unfollow();
            if is_alone && response.is_success() && !is_long(length) {
                let progress = self.send_window.with_progress(|progress| *progress);
                self.upstream().writes.note(length, &progress, now);
            }
        }
        let mut body = response.body;
        let length = body.declared();
        let is_read = method == Method::Get && response.is_success();
        if let Some(length) = length.filter(|_| is_read) {
            queue.application().counters.note_read(length);
        }
        self.send_window.with_progress(|progress| progress.note(now));
        let passed = if length.is_some_and(|length| length <= SMALL_BODY) {
            self.small_response(&mut body, &queue, request_grant).await
        } else {
            self.download(&mut body, Download { queue: queue.clone(), request_grant, deadline }).await
        };
        let now = self.upstream().clock().now();
        if let Some(length) = length.filter(|_| is_read && is_alone && passed.is_ok()) {
            let progress = self.send_window.with_progress(|progress| *progress);
            self.upstream().reads.note(length, &progress, now);
        }
        queue.application().counters.latencies.note(Duration::from_nanos(now.since(began)));
        match passed {
            // Closing is how such a body ends.
            Err(End::Cut) if is_tunnel => Err(End::Clean),
            passed => passed,
        }
    }

    async fn small_response(
        &self,
        body: &mut Body,
        queue: &RequestQueue,
        request_grant: Option<RequestGrant>,
    ) -> Result<(), End> {
        let mut request_grant = request_grant;
        while !body.is_over() {
            if request_grant.is_some() && !self.more_in_time().await? {
                request_grant.take().into_iter().for_each(RequestGrant::release);
            }
            self.server.holds(1).await.map_err(|_| End::Broken(Broken::Reading))?;
            let moved = self.pass_down(body, queue, SLICE).await?;
            request_grant.iter_mut().for_each(|request_grant| request_grant.moved(moved.bytes));
            if body.is_over() || moved.stopped == Stopped::Blocked {
                request_grant.take().into_iter().for_each(RequestGrant::complete);
            }
            self.after_reading(moved.stopped).await?;
        }
        request_grant.into_iter().for_each(RequestGrant::complete);
        Ok(())
    }

    /// Whether the server sends more, or ends, before it has stood still for too long.
    async fn more_in_time(&self) -> Result<bool, End> {
        let more = self.server.gathers(1, self.upstream().request_timeout(), self.upstream().clock());
        more.await.map_err(|_| End::Broken(Broken::Reading))
    }
}
