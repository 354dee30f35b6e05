//! From the client to the server: heads with their application's grant, bodies slice by slice.

use std::rc::Rc;

use policy::fairness::{Completion, Time};

use crate::applications::add;
use crate::config::Facts;
use crate::flows::{Unanswered, Woken};
use crate::outstanding::SentRequest;
use crate::s3::body::Body;
use crate::s3::connection::{Connection, End};
use crate::s3::head::{self, Found, Method};
use crate::s3::identity::{deadline_of, range_of, with_facts};
use crate::s3::limits::{HEAD_TIMEOUT, IDLE_TIMEOUT};
use crate::s3::pass::{Broken, pass};
use crate::s3::pending::Asked;
use crate::s3::request_grant::RequestGrant;
use crate::socket::SLICE;
use crate::upstream_scheduler::{Grant, RequestQueue};
use crate::wire::Seen;

/// A body that is not longer passes with the operation's grant, whose cost it is about.
pub(crate) const SMALL_BODY: u64 = 4096;

/// The meaning of a head, without its bytes.
struct ParsedRequest {
    method: Method,
    body: Body,
    may_change_protocol: bool,
    /// The client sends its body after "100 Continue".
    expects_continue: bool,
    /// Bytes that it asks for, if it says so.
    range_bytes: Option<u64>,
    queue: Rc<RequestQueue>,
    /// Its own, not the application's.
    deadline: Option<Time>,
}

/// The next event from a client; its bytes are in the buffer.
enum Next {
    Head(ParsedRequest),
    Strange,
    End,
}

impl Connection {
    pub(super) async fn requests(&self) -> End {
        let mut head = Vec::new();
        loop {
            let next = match self.next_request(&mut head).await {
                Ok(next) => next,
                Err(_) => return End::Broken(Broken::Reading),
            };
            let done = match next {
                Next::Head(understood) => self.request(&head, understood).await,
                Next::Strange => self.opaque(&head).await,
                Next::End if head.is_empty() => return End::Clean,
                // The server may answer half a head, so it gets it.
                Next::End => Some(self.begin_freely(&head).await.err().unwrap_or(End::Clean)),
            };
            if let Some(end) = done {
                return end;
            }
        }
    }

    /// Takes a whole head from the client, and no byte of what follows.
    async fn next_request(&self, head: &mut Vec<u8>) -> std::io::Result<Next> {
        head.clear();
        head.shrink_to(head::KEPT);
        self.next_begins().await?;
        let end = tokio::time::Instant::now() + HEAD_TIMEOUT;
        loop {
            tokio::time::timeout_at(end, self.client.holds(1)).await??;
            let seen = self.client.look(head::LOOKED_AT, |bytes| {
                head::gather(head, bytes, |bytes| head::request(bytes, |request| self.understand(request)))
            });
            match seen.await? {
                Seen::Nothing | Seen::Some(Found::Part) => {}
                Seen::End => return Ok(Next::End),
                Seen::Some(Found::Strange) => return Ok(Next::Strange),
                Seen::Some(Found::Head(_, understood)) => return Ok(Next::Head(understood)),
            }
        }
    }

    /// Passes on what is no request, or only a part of one.
    async fn begin_freely(&self, bytes: &[u8]) -> Result<(), End> {
        self.dial().await?;
        self.write_freely(bytes, false).await
    }

    /// Waits for a first byte. A client may be silent while its answer is outstanding, not otherwise.
    async fn next_begins(&self) -> std::io::Result<()> {
        loop {
            match tokio::time::timeout(IDLE_TIMEOUT, self.client.holds(1)).await {
                Ok(done) => return done,
                Err(_) if self.pending.is_empty() && !self.is_answering.get() => {
                    return Err(std::io::ErrorKind::TimedOut.into());
                }
                Err(_) => {}
            }
        }
    }

    fn understand(&self, request: &head::Request<'_>) -> ParsedRequest {
        let host_suffix = self.listener.listen.host_suffix.as_deref();
        let queue = with_facts(request, self.address, host_suffix, |facts: &Facts<'_>| self.queue_of(facts));
        let head::Request { method, body, may_change_protocol, .. } = *request;
        let may_hurry = self.listener.gate.applications.may_set_deadline(queue.application());
        let deadline = deadline_of(request).filter(|_| may_hurry).map(|within| self.upstream().clock().after(within));
        let expects_continue = request.header("expect").is_some();
        let range_bytes = request.header("range").and_then(range_of);
        ParsedRequest { method, body, may_change_protocol, expects_continue, range_bytes, queue, deadline }
    }

    /// Passes one request on. `Some`: it was the last.
    async fn request(&self, head: &[u8], request: ParsedRequest) -> Option<End> {
        let ParsedRequest { method, mut body, may_change_protocol, expects_continue, range_bytes, queue, deadline } =
            request;
        let began = self.upstream().clock().now();
        self.pending.room().await;
        let small = body.declared().filter(|declared| *declared <= SMALL_BODY);
        let plan = self.plan_upload(body.declared());
        let (bytes, completion) = match (method, small) {
            // Requests sent ahead of answers get their grants when those before them are answered.
            _ if !self.pending.is_empty() => (small.unwrap_or(0), Completion::Served),
            // The cost of a GET is not known before its answer: the usual cost is assumed.
            (Method::Get, _) => (self.expected_read(range_bytes, &queue), Completion::Served),
            (_, Some(small)) => (small, Completion::Served),
            (_, None) => (plan.bytes, plan.completion),
        };
        let admission = self.admit(plan, &queue, body.declared(), deadline).await;
        let (grant, unanswered) = self.request_granted(&queue, bytes, deadline, completion).await;
        let mut request_grant = RequestGrant::new(grant, bytes);
        if let Err(end) = self.dial_for(&mut request_grant).await {
            return Some(end);
        }
        admission.into_iter().for_each(|admission| self.send_window.follow(admission, &self.server));
        let (request_grant, sent) = (Some(request_grant), self.upstream().clock().now());
        let upload = small.is_none().then(|| body.declared().unwrap_or(0));
        self.begin_progress();
        let asked = Asked {
            method,
            queue: queue.clone(),
            request_grant,
            unanswered,
            late_since: None,
            outstanding: SentRequest::of(queue.application()),
            upload,
            is_alone: false,
            deadline,
            began,
            sent,
        };
        self.pending.push(asked);
        if self.pending.is_single() && queue.flow().hangs() {
            self.pending.note_late(sent);
        }
        self.has_continued.set(false);
        let is_followed = small.is_some_and(|small| small > 0 && self.client.has(small as usize));
        if let Err(end) = self.write_freely(head, is_followed).await {
            return Some(end);
        }
        let passed = if small.is_some() {
            let passing = self.small_body(&mut body, &queue);
            self.or_release(passing).await
        } else {
            self.upload(&mut body, &queue, deadline, (plan, expects_continue)).await
        };
        if let Err(end) = passed {
            return Some(end);
        }
        if may_change_protocol && self.pending.changes_protocol().await {
            return Some(self.tunnel(&queue).await);
        }
        None
    }

    /// Waits for the request's grant. An application whose requests hang has no more at a server that it shares than its part
    /// of the depth, and requests that keep their grants until the reply count for that.
    async fn request_granted(
        &self,
        queue: &Rc<RequestQueue>,
        bytes: u64,
        deadline: Option<Time>,
        completion: Completion,
    ) -> (Grant, Option<Unanswered>) {
        let _wait = queue.flow().wait();
        let mut grant = queue.grant(bytes, deadline, completion).await;
        if completion != Completion::Served || !self.pending.is_empty() {
            return (grant, None);
        }
        let (flow, cost_bytes) = (queue.flow(), grant.cost_bytes());
        let has_room = || !self.upstream().flows.is_shared(flow) || self.upstream().has_room(flow, cost_bytes);
        let mut woken = None;
        while !has_room() {
            drop(grant);
            woken.take().into_iter().for_each(Woken::keep);
            woken = Some(flow.room(has_room).await);
            grant = queue.grant_again(bytes, deadline, completion).await;
        }
        (grant, Some(flow.sent(cost_bytes)))
    }

    fn expected_read(&self, range_bytes: Option<u64>, queue: &RequestQueue) -> u64 {
        let upstream = self.upstream();
        let usual = queue.application().counters.read_bytes.get().max(SLICE as u64);
        upstream.reads.bytes(range_bytes.unwrap_or(usual)).min(upstream.max_grant())
    }

    /// Passes on what is no request, and all that follows it.
    async fn opaque(&self, head: &[u8]) -> Option<End> {
        let queue = self.last_queue();
        if let Err(end) = self.begin_freely(head).await {
            return Some(end);
        }
        Some(self.tunnel(&queue).await)
    }

    async fn tunnel(&self, queue: &Rc<RequestQueue>) -> End {
        self.server.report_acknowledgements(true);
        match self.slices(&mut Body::Rest, queue, None, Completion::Received).await {
            Ok(()) | Err(End::Cut) => End::Clean,
            Err(end) => end,
        }
    }

    /// `is_followed`: by bytes at hand.
    async fn write_freely(&self, bytes: &[u8], is_followed: bool) -> Result<(), End> {
        self.send_window.sent_freely(bytes.len() as u64);
        let written = match is_followed {
            true => self.server.write_ahead(bytes).await,
            false => self.server.write_all(bytes).await,
        };
        written.map_err(|_| End::Broken(Broken::Writing))
    }

    async fn small_body(&self, body: &mut Body, queue: &RequestQueue) -> Result<(), End> {
        while !body.is_over() {
            self.client.holds(1).await.map_err(|_| End::Broken(Broken::Reading))?;
            let moved = pass(&self.client, &self.server, body, SLICE).await.map_err(End::Broken)?;
            self.send_window.sent_freely(moved.bytes);
            self.pending.moved(moved.bytes);
            add(&queue.application().counters.up_bytes, moved.bytes);
            self.after(moved.stopped).await?;
        }
        Ok(())
    }
}
