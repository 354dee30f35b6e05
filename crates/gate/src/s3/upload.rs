//! The body of a request: its first bytes pass with the request's grant, the others slice by slice, each at its turn.
//!
//! The grant counts until the reply. Where a server keeps little back (`shares/reserve.rs`), it is one slice, complete
//! when it has been acknowledged, and the body's last slice is what counts until the reply.

use std::rc::Rc;
use std::time::Duration;

use policy::fairness::Time;

use crate::applications::add;
use crate::s3::body::Body;
use crate::s3::connection::{Connection, End};
use crate::s3::grant::Grant;
use crate::s3::pass::{Broken, Stopped, pass};
use crate::shares::Stream;
use crate::shares::reserve::MIN_BYTES;
use crate::socket::SLICE;

/// The last slice of a body may be a little longer than the others.
const LONGEST_SLICE: u64 = SLICE as u64 * 5 / 4;
/// How long the rest of a slice is waited for.
const GATHERING: Duration = Duration::from_millis(10);
/// What is granted is paid, so it need not come in whole slices. Waiting for one would cost much: a sender holds back
/// what does not fit a whole segment into our window, which opens when we take what has come.
const GRANTED_PIECE: usize = SLICE / 4;
const GATHERING_GRANTED: Duration = Duration::from_millis(1);
/// What each slice that comes gives a client back of its time (`client_timeout.rs`).
const CREDIT: Duration = Duration::from_millis(20);

/// How an upload begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// So many bytes pass with the grant.
    pub bytes: u64,
    /// Whether that is all of it. Otherwise it ends when it is acknowledged: what waits for more depth must hold none.
    is_whole: bool,
}

impl Connection {
    /// `length`: of the body, if it says so.
    pub(super) fn plan_upload(&self, length: Option<u64>) -> Plan {
        let shares = self.shares();
        let length = length.unwrap_or(u64::MAX);
        let is_whole = shares.writes.bytes(length).min(shares.max_grant()) >= length;
        Plan { bytes: if is_whole { length } else { MIN_BYTES }, is_whole }
    }

    /// `expects_continue`: the client waits to be told that it may send.
    pub(super) async fn upload(
        &self,
        body: &mut Body,
        stream: &Rc<Stream>,
        deadline: Option<Time>,
        (plan, expects_continue): (Plan, bool),
    ) -> Result<(), End> {
        self.server.tell(true);
        self.is_sending.set(true);
        let mut passed = self.granted(body, stream, expects_continue).await;
        if passed.is_ok() && !body.is_over() {
            if !plan.is_whole {
                self.let_grant_end_when_acknowledged();
            }
            passed = self.slices(body, stream, deadline).await;
        }
        self.is_sending.set(false);
        self.server.tell(false);
        passed
    }

    async fn granted(&self, body: &mut Body, stream: &Stream, expects_continue: bool) -> Result<(), End> {
        let clock = self.shares().clock();
        let client_timeout = &stream.application().client_timeout;
        let most = client_timeout.get(clock.now());
        let mut left = most;
        let mut server_left = if expects_continue { self.shares().request_timeout() } else { Duration::ZERO };
        while !body.is_over() {
            let allowance = self.pending.allowance();
            if allowance == 0 {
                return Ok(());
            }
            let slice = self.slice_of(body, allowance);
            let wanted = body.promised().map_or(1, |_| slice.min(GRANTED_PIECE));
            if self.has_continued.get() {
                server_left = Duration::ZERO;
            }
            let whose_left = if server_left.is_zero() { &mut left } else { &mut server_left };
            let began = clock.now();
            let arrived = self.client.gathers(wanted, (*whose_left).min(GATHERING_GRANTED), clock).await;
            *whose_left = whose_left.saturating_sub(Duration::from_nanos(clock.now().since(began)));
            if !arrived.map_err(|_| End::Broken(Broken::Reading))? {
                if !left.is_zero() {
                    continue;
                }
                client_timeout.note_late(clock.now());
                self.pending.release();
                return Ok(());
            }
            self.drain.room(&self.server, self.shares()).await;
            let moved = pass(&self.client, &self.server, body, slice).await.map_err(End::Broken)?;
            if moved.bytes > 0 {
                self.drain.sent(moved.bytes, None, &self.server, self.shares());
                self.pending.moved(moved.bytes);
                left = (left + CREDIT * moved.bytes as u32 / SLICE as u32).min(most);
                add(&stream.application().counters.up_bytes, moved.bytes);
            }
            self.after(moved.stopped).await?;
        }
        Ok(())
    }

    /// At most a slice, in whole pairs of segments; a small rest of the body goes along.
    fn slice_of(&self, body: &Body, most: u64) -> usize {
        let rest = body.promised().filter(|left| *left <= LONGEST_SLICE.min(most));
        rest.unwrap_or((self.server.whole_slice() as u64).min(most)) as usize
    }

    fn let_grant_end_when_acknowledged(&self) {
        if let Some(spent) = self.pending.take_grant().and_then(Grant::into_turn) {
            self.drain.sent_before(spent);
        }
    }

    pub(super) async fn slices(&self, body: &mut Body, stream: &Rc<Stream>, deadline: Option<Time>) -> Result<(), End> {
        while !body.is_over() {
            let slice = self.slice_of(body, u64::MAX);
            // Of bodies whose length is not known, whatever has come is passed on.
            let wanted = body.promised().map_or(1, |_| slice);
            self.arrived(wanted).await.map_err(|_| End::Broken(Broken::Reading))?;
            self.drain.room(&self.server, self.shares()).await;
            let turn = stream.slice(slice as u64, deadline).await;
            let moved = pass(&self.client, &self.server, body, slice).await.map_err(End::Broken)?;
            add(&stream.application().counters.up_bytes, moved.bytes);
            if moved.bytes == 0 {
                drop(turn);
            } else if body.is_over() && !self.pending.holds_grant() {
                self.drain.sent(moved.bytes, None, &self.server, self.shares());
                self.pending.hold(Grant::spent(turn, moved.bytes));
            } else {
                self.drain.sent(moved.bytes, Some(turn), &self.server, self.shares());
            }
            self.after(moved.stopped).await?;
        }
        Ok(())
    }

    /// Returns when a slice has arrived, or a part of one some time ago, or the end.
    async fn arrived(&self, wanted: usize) -> std::io::Result<()> {
        while !self.client.gathers(wanted, GATHERING, self.shares().clock()).await? {
            self.client.holds(1).await?;
        }
        Ok(())
    }

    pub(super) async fn after(&self, stopped: Stopped) -> Result<(), End> {
        self.server.flush().await.map_err(|_| End::Broken(Broken::Writing))?;
        match stopped {
            Stopped::Done | Stopped::Dry => Ok(()),
            Stopped::Ended => Err(End::Cut),
            Stopped::Blocked => self.server.accepts().await.map_err(|_| End::Broken(Broken::Writing)),
        }
    }
}
