//! The body of an answer: its first bytes pass with the request's grant, the others slice by slice: a grant is taken
//! before a slice is read, and complete when it has been read.
//!
//! A client that takes no more asks for no grant; a server that sends nothing for a while loses its grant and asks
//! again when it does.

use std::rc::Rc;
use std::time::Duration;

use policy::fairness::Time;

use crate::applications::add;
use crate::s3::body::Body;
use crate::s3::connection::{Connection, End};
use crate::s3::pass::{Broken, Moved, Stopped, pass};
use crate::s3::request_grant::RequestGrant;
use crate::s3::slice_grants::SliceGrants;
use crate::socket::SLICE;
use crate::upstream_scheduler::RequestQueue;

/// The download's owner, and what is left of its request's grant.
pub(crate) struct Download {
    pub queue: Rc<RequestQueue>,
    pub request_grant: Option<RequestGrant>,
    pub deadline: Option<Time>,
}

impl Connection {
    pub(super) async fn download(&self, body: &mut Body, download: Download) -> Result<(), End> {
        let Download { queue, request_grant, deadline } = download;
        if let Some(request_grant) = request_grant {
            self.granted_answer(body, &queue, request_grant).await?;
        }
        self.answer_slices(body, &queue, deadline).await
    }

    /// Granted bytes count until they have come.
    async fn granted_answer(
        &self,
        body: &mut Body,
        queue: &RequestQueue,
        mut request_grant: RequestGrant,
    ) -> Result<(), End> {
        while !body.is_over() && request_grant.left() > 0 {
            let most = request_grant.left().min(SLICE as u64);
            let wanted = body.declared().map_or(1, |left| left.min(most));
            if !self.arrives_in_time(wanted as usize).await? {
                request_grant.release();
                return Ok(());
            }
            let moved = self.pass_down(body, queue, most as usize).await?;
            request_grant.moved(moved.bytes);
            if request_grant.left() == 0 || body.is_over() {
                request_grant.complete();
                return self.after_reading(moved.stopped).await;
            }
            if !self.takes_in_time(moved.stopped, queue).await? {
                request_grant.release();
                return self.after_reading(moved.stopped).await;
            }
        }
        request_grant.complete();
        Ok(())
    }

    /// Whether the server sends so much, or less and then nothing for a while, before it has stood still for too long.
    async fn arrives_in_time(&self, wanted: usize) -> Result<bool, End> {
        let upstream = self.upstream();
        let mut waited = Duration::ZERO;
        loop {
            let timeout = upstream.progress_timeout();
            let gathered = self.server.gathers(wanted, timeout, upstream.clock()).await;
            if gathered.map_err(|_| End::Broken(Broken::Reading))? {
                return Ok(true);
            }
            waited += timeout;
            if waited >= upstream.request_timeout() {
                return Ok(false);
            }
        }
    }

    /// Whether the client can take more before long.
    async fn takes_in_time(&self, stopped: Stopped, queue: &RequestQueue) -> Result<bool, End> {
        let clock = self.upstream().clock();
        let timeout = &queue.application().client_timeout;
        let taken = tokio::select! {
            biased;
            taken = self.after_reading(stopped) => Some(taken),
            () = clock.sleep_about(timeout.get(clock.now())) => None,
        };
        if taken.is_none() {
            timeout.note_late(clock.now());
        }
        self.send_window.with_progress(|progress| progress.resume(clock.now()));
        taken.transpose().map(|taken| taken.is_some())
    }

    async fn answer_slices(
        &self,
        body: &mut Body,
        queue: &Rc<RequestQueue>,
        deadline: Option<Time>,
    ) -> Result<(), End> {
        let mut slice_grants = SliceGrants::new(queue.clone(), deadline);
        while !body.is_over() {
            let left = body.declared().unwrap_or(u64::MAX);
            let slice = usize::try_from(left).unwrap_or(SLICE).min(SLICE);
            // Of bodies of unknown length, the bytes at hand are passed on.
            let wanted = body.declared().map_or(1, |_| slice);
            let grant = slice_grants.next(left).await;
            self.send_window.with_progress(|progress| progress.resume(self.upstream().clock().now()));
            let gathered =
                self.server.gathers(wanted, self.upstream().progress_timeout(), self.upstream().clock()).await;
            if !gathered.map_err(|_| End::Broken(Broken::Reading))? {
                grant.give_back(0);
                slice_grants.give_back();
                self.server.holds(1).await.map_err(|_| End::Broken(Broken::Reading))?;
                continue;
            }
            let moved = self.pass_down(body, queue, slice).await?;
            grant.complete(moved.bytes);
            if moved.stopped == Stopped::Blocked || !self.client.is_flushed() {
                slice_grants.give_back();
            }
            self.after_reading(moved.stopped).await?;
        }
        Ok(())
    }

    pub(super) async fn pass_down(&self, body: &mut Body, queue: &RequestQueue, most: usize) -> Result<Moved, End> {
        let moved = pass(&self.server, &self.client, body, most).await.map_err(End::Broken)?;
        add(&queue.application().counters.down_bytes, moved.bytes);
        self.send_window.with_progress(|progress| progress.note(self.upstream().clock().now()));
        Ok(moved)
    }

    pub(super) async fn after_reading(&self, stopped: Stopped) -> Result<(), End> {
        self.client.flush().await.map_err(|_| End::Broken(Broken::Writing))?;
        match stopped {
            Stopped::Done | Stopped::Dry => Ok(()),
            Stopped::Ended => Err(End::Cut),
            Stopped::Blocked => self.client.accepts().await.map_err(|_| End::Broken(Broken::Writing)),
        }
    }
}
