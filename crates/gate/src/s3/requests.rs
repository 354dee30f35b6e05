//! From the client to the server: heads at the application's turn, bodies slice by slice.

use std::time::Duration;

use policy::fairness::Time;

use crate::applications::add;
use crate::config::Facts;
use crate::s3::body::Body;
use crate::s3::connection::{Connection, End};
use crate::s3::head::{self, Found, Method};
use crate::s3::identity::{deadline_of, with_facts};
use crate::s3::pass::{Broken, Stopped, pass};
use crate::s3::pending::Asked;
use crate::shares::Stream;
use crate::socket::SLICE;
use crate::wire::Seen;
use std::rc::Rc;

/// A body that is not longer passes with the operation's turn, whose cost it is about.
pub(crate) const SMALL_BODY: u64 = 4096;
/// The last slice of a body may be a little longer than the others.
const LONGEST_SLICE: u64 = SLICE as u64 * 5 / 4;
/// How long the rest of a slice is waited for.
const GATHERING: Duration = Duration::from_millis(10);

/// What a head says, without its bytes.
struct Understood {
    method: Method,
    body: Body,
    may_change_protocol: bool,
    stream: Rc<Stream>,
    /// Its own, not the application's.
    deadline: Option<Time>,
}

/// What comes next from a client; the bytes of it are in the buffer.
enum Next {
    Head(Understood),
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
                Next::End => self.write_freely(&head, false).await.map_or_else(Some, |()| Some(End::Clean)),
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
        loop {
            self.client.holds(1).await?;
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

    fn understand(&self, request: &head::Request<'_>) -> Understood {
        let host_suffix = self.door.listen.host_suffix.as_deref();
        let stream = with_facts(request, self.address, host_suffix, |facts: &Facts<'_>| self.stream_of(facts));
        let head::Request { method, body, may_change_protocol, .. } = *request;
        let deadline = deadline_of(request).map(|within| self.shares().clock().after(within));
        Understood { method, body, may_change_protocol, stream, deadline }
    }

    /// Passes one request on. `Some`: it was the last.
    async fn request(&self, head: &[u8], request: Understood) -> Option<End> {
        let Understood { method, mut body, may_change_protocol, stream, deadline } = request;
        let began = self.shares().clock().now();
        self.pending.room().await;
        let small = body.promised().filter(|promised| *promised <= SMALL_BODY);
        // What a GET will cost is not known before its answer: a slice is assumed, and given back.
        let expected = if method == Method::Get { SLICE as u64 } else { small.unwrap_or(0) };
        let mut turn = Some(stream.turn(expected, deadline).await);
        let operation = turn.take_if(|_| small.is_some());
        self.pending.push(Asked { method, stream: stream.clone(), turn: operation, deadline, began });
        let is_followed = small.is_some_and(|small| small > 0 && self.client.has(small as usize));
        if let Err(end) = self.write_freely(head, is_followed).await {
            return Some(end);
        }
        turn.into_iter().for_each(|turn| turn.give_back(0));
        let passed = if small.is_some() {
            self.small_body(&mut body, &stream).await
        } else {
            self.body(&mut body, &stream, deadline).await
        };
        if let Err(end) = passed {
            return Some(end);
        }
        if may_change_protocol && self.pending.changes_protocol().await {
            return Some(self.tunnel(&stream).await);
        }
        None
    }

    /// Passes on what is no request, and all that follows it.
    async fn opaque(&self, head: &[u8]) -> Option<End> {
        let stream = self.last_stream();
        if let Err(end) = self.write_freely(head, false).await {
            return Some(end);
        }
        Some(self.tunnel(&stream).await)
    }

    async fn tunnel(&self, stream: &Rc<Stream>) -> End {
        match self.body(&mut Body::Rest, stream, None).await {
            Ok(()) | Err(End::Cut) => End::Clean,
            Err(end) => end,
        }
    }

    /// `is_followed`: by what has come already.
    async fn write_freely(&self, bytes: &[u8], is_followed: bool) -> Result<(), End> {
        self.drain.sent_freely(bytes.len() as u64);
        let written = match is_followed {
            true => self.server.write_ahead(bytes).await,
            false => self.server.write_all(bytes).await,
        };
        written.map_err(|_| End::Broken(Broken::Writing))
    }

    async fn small_body(&self, body: &mut Body, stream: &Stream) -> Result<(), End> {
        while !body.is_over() {
            self.client.holds(1).await.map_err(|_| End::Broken(Broken::Reading))?;
            let moved = pass(&self.client, &self.server, body, SLICE).await.map_err(End::Broken)?;
            self.drain.sent_freely(moved.bytes);
            add(&stream.application().counters.up_bytes, moved.bytes);
            self.after(moved.stopped).await?;
        }
        Ok(())
    }

    async fn body(&self, body: &mut Body, stream: &Rc<Stream>, deadline: Option<Time>) -> Result<(), End> {
        self.server.tell(true);
        let passed = self.slices(body, stream, deadline).await;
        self.server.tell(false);
        passed
    }

    async fn slices(&self, body: &mut Body, stream: &Rc<Stream>, deadline: Option<Time>) -> Result<(), End> {
        let whole = self.server.whole_slice();
        while !body.is_over() {
            // A small rest goes along.
            let rest = body.promised().filter(|left| *left <= LONGEST_SLICE);
            let slice = rest.map_or(whole, |rest| rest as usize);
            // Of bodies whose length is not known, whatever has come is passed on.
            let wanted = body.promised().map_or(1, |_| slice);
            self.arrived(wanted).await.map_err(|_| End::Broken(Broken::Reading))?;
            self.drain.room(&self.server, self.shares()).await;
            let turn = stream.slice(slice as u64, deadline).await;
            let moved = pass(&self.client, &self.server, body, slice).await.map_err(End::Broken)?;
            if moved.bytes > 0 {
                self.drain.sent(moved.bytes, turn, &self.server, self.shares());
                add(&stream.application().counters.up_bytes, moved.bytes);
            } else {
                drop(turn);
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

    async fn after(&self, stopped: Stopped) -> Result<(), End> {
        match stopped {
            Stopped::Done | Stopped::Dry => Ok(()),
            Stopped::Ended => Err(End::Cut),
            Stopped::Blocked => self.server.accepts().await.map_err(|_| End::Broken(Broken::Writing)),
        }
    }
}
