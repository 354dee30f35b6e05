//! The body of an answer: its first bytes pass with the request's grant, the others slice by slice: a turn is taken
//! before a slice is read, and complete when it has been read.
//!
//! A client that takes no more asks for no turn; a server that sends nothing for a while loses its turn and asks again
//! when it does.

use std::rc::Rc;
use std::time::Duration;

use policy::fairness::Time;

use crate::applications::add;
use crate::s3::ahead::Ahead;
use crate::s3::body::Body;
use crate::s3::connection::{Connection, End};
use crate::s3::grant::Grant;
use crate::s3::pass::{Broken, Moved, Stopped, pass};
use crate::shares::Stream;
use crate::socket::SLICE;

/// Whose answer it is, and what is left of its request's grant.
pub(crate) struct Download {
    pub stream: Rc<Stream>,
    pub grant: Option<Grant>,
    pub deadline: Option<Time>,
}

impl Connection {
    pub(super) async fn download(&self, body: &mut Body, download: Download) -> Result<(), End> {
        let Download { stream, grant, deadline } = download;
        if let Some(grant) = grant {
            self.granted_answer(body, &stream, grant).await?;
        }
        self.answer_slices(body, &stream, deadline).await
    }

    /// What was granted counts until it has come.
    async fn granted_answer(&self, body: &mut Body, stream: &Stream, mut grant: Grant) -> Result<(), End> {
        while !body.is_over() && grant.left() > 0 {
            let most = grant.left().min(SLICE as u64);
            let wanted = body.promised().map_or(1, |left| left.min(most));
            if !self.arrives_in_time(wanted as usize).await? {
                grant.release();
                return Ok(());
            }
            let moved = self.pass_down(body, stream, most as usize).await?;
            grant.moved(moved.bytes);
            if grant.left() == 0 || body.is_over() {
                grant.complete();
                return self.after_reading(moved.stopped).await;
            }
            if !self.takes_in_time(moved.stopped, stream).await? {
                grant.release();
                return self.after_reading(moved.stopped).await;
            }
        }
        grant.complete();
        Ok(())
    }

    /// Whether the server sends so much, or less and then nothing for a while, before it has stood still for too long.
    async fn arrives_in_time(&self, wanted: usize) -> Result<bool, End> {
        let shares = self.shares();
        let mut waited = Duration::ZERO;
        loop {
            let timeout = shares.patience();
            let gathered = self.server.gathers(wanted, timeout, shares.clock()).await;
            if gathered.map_err(|_| End::Broken(Broken::Reading))? {
                return Ok(true);
            }
            waited += timeout;
            if waited >= shares.request_timeout() {
                return Ok(false);
            }
        }
    }

    /// Whether the client can take more before long.
    async fn takes_in_time(&self, stopped: Stopped, stream: &Stream) -> Result<bool, End> {
        let clock = self.shares().clock();
        let timeout = &stream.application().client_timeout;
        let taken = tokio::select! {
            biased;
            taken = self.after_reading(stopped) => Some(taken),
            () = clock.sleep_about(timeout.get(clock.now())) => None,
        };
        if taken.is_none() {
            timeout.note_late(clock.now());
        }
        self.drain.with_progress(|progress| progress.resume(clock.now()));
        taken.transpose().map(|taken| taken.is_some())
    }

    async fn answer_slices(&self, body: &mut Body, stream: &Rc<Stream>, deadline: Option<Time>) -> Result<(), End> {
        let mut ahead = Ahead::new(stream.clone(), deadline);
        while !body.is_over() {
            let left = body.promised().unwrap_or(u64::MAX);
            let slice = usize::try_from(left).unwrap_or(SLICE).min(SLICE);
            // Of bodies whose length is not known, whatever has come is passed on.
            let wanted = body.promised().map_or(1, |_| slice);
            let turn = ahead.next(left).await;
            self.drain.with_progress(|progress| progress.resume(self.shares().clock().now()));
            let gathered = self.server.gathers(wanted, self.shares().patience(), self.shares().clock()).await;
            if !gathered.map_err(|_| End::Broken(Broken::Reading))? {
                turn.give_back(0);
                ahead.give_back();
                self.server.holds(1).await.map_err(|_| End::Broken(Broken::Reading))?;
                continue;
            }
            let moved = self.pass_down(body, stream, slice).await?;
            turn.complete(moved.bytes);
            if moved.stopped == Stopped::Blocked || !self.client.is_flushed() {
                ahead.give_back();
            }
            self.after_reading(moved.stopped).await?;
        }
        Ok(())
    }

    pub(super) async fn pass_down(&self, body: &mut Body, stream: &Stream, most: usize) -> Result<Moved, End> {
        let moved = pass(&self.server, &self.client, body, most).await.map_err(End::Broken)?;
        add(&stream.application().counters.down_bytes, moved.bytes);
        self.drain.with_progress(|progress| progress.note(self.shares().clock().now()));
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
