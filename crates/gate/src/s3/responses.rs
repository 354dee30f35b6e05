//! From the server to the client: a turn is taken before a slice is read, and complete when it has been read.
//!
//! A client that takes no more asks for no turn; a server that sends nothing for a while loses its turn and asks again
//! when it does.

use std::io;
use std::time::Duration;

use policy::fairness::Time;

use crate::applications::add;
use crate::s3::ahead::Ahead;
use crate::s3::body::Body;
use crate::s3::connection::{Connection, End};
use crate::s3::head::{self, Found, Response};
use crate::s3::pass::{Broken, Moved, Stopped, pass};
use crate::s3::pending::Asked;
use crate::s3::requests::SMALL_BODY;
use crate::shares::{Stream, Turn};
use crate::socket::SLICE;
use crate::wire::Seen;
use std::rc::Rc;

/// How long the head of a short answer is kept for its body.
const TOGETHER: Duration = Duration::from_millis(2);

/// What comes next from a server; the bytes of it are in the buffer.
enum Next {
    Head(Response),
    Strange,
    End,
}

impl Connection {
    pub(super) async fn responses(&self) -> End {
        let mut head = Vec::new();
        loop {
            let next = match self.next_response(&mut head).await {
                Ok(next) => next,
                Err(_) => return End::Broken(Broken::Reading),
            };
            let written = match &next {
                Next::Head(response) if self.is_followed(response).await => self.client.write_ahead(&head).await,
                _ => self.client.write_all(&head).await,
            };
            if written.is_err() {
                return End::Broken(Broken::Writing);
            }
            let passed = match next {
                Next::Head(response) if response.is_interim() => Ok(()),
                Next::Head(response) => self.response(response).await,
                Next::Strange => {
                    let stream = self.last_stream();
                    self.response_body(&mut Body::Rest, &stream, None, None).await
                }
                Next::End if head.is_empty() => return End::Clean,
                Next::End => return End::Cut,
            };
            if let Err(end) = passed {
                return end;
            }
        }
    }

    /// Whether a first slice of the body has come and has its turn. If it is all of the body it is waited for: the
    /// client can do little with its head alone.
    async fn is_followed(&self, response: &Response) -> bool {
        let promised = response.body.promised().unwrap_or(0);
        if promised == 0 || !self.pending.holds_turn() {
            return false;
        }
        let first = promised.min(SLICE as u64) as usize;
        if promised <= SLICE as u64 {
            // Whoever reads it next finds what is wrong.
            let _ = self.server.gathers(first, TOGETHER, self.shares().clock()).await;
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

    /// Returns when the server has sent something. An operation that it does not answer for a while loses its turn.
    async fn answer_begins(&self) -> io::Result<()> {
        loop {
            tokio::select! {
                biased;
                holds = self.server.holds(1) => return holds,
                () = self.pending.added() => {}
                () = self.patience_ends(), if self.pending.holds_turn() => self.pending.give_turn_back(),
            }
        }
    }

    async fn patience_ends(&self) {
        self.shares().clock().sleep_about(self.shares().patience()).await;
    }

    async fn response(&self, response: Response) -> Result<(), End> {
        let is_tunnel = response.status == 101 || response.body == Body::Rest;
        let Some(asked) = self.pending.answer(response.status == 101) else { return Ok(()) };
        let Asked { stream, turn, deadline, began, .. } = asked;
        if turn.is_none() {
            // Given back too early, perhaps: a server may need its time for everything.
            self.shares().note_service(self.shares().clock().now().since(began));
        }
        let mut body = response.body;
        let passed = if body.promised().is_some_and(|promised| promised <= SMALL_BODY) {
            self.small_response(&mut body, &stream, turn).await
        } else {
            self.response_body(&mut body, &stream, turn, deadline).await
        };
        let counters = &stream.application().counters;
        counters.latencies.note(Duration::from_nanos(self.shares().clock().now().since(began)));
        match passed {
            // Closing is how such a body ends.
            Err(End::Cut) if is_tunnel => Err(End::Clean),
            passed => passed,
        }
    }

    async fn small_response(&self, body: &mut Body, stream: &Stream, turn: Option<Turn>) -> Result<(), End> {
        let mut served = 0;
        while !body.is_over() {
            self.server.holds(1).await.map_err(|_| End::Broken(Broken::Reading))?;
            let moved = self.pass_down(body, stream, SLICE).await?;
            served += moved.bytes;
            self.after_reading(moved.stopped).await?;
        }
        turn.into_iter().for_each(|turn| turn.complete(served));
        Ok(())
    }

    async fn response_body(
        &self,
        body: &mut Body,
        stream: &Rc<Stream>,
        turn: Option<Turn>,
        deadline: Option<Time>,
    ) -> Result<(), End> {
        let mut ahead = Ahead::new(stream.clone(), turn, deadline);
        while !body.is_over() {
            let left = body.promised().unwrap_or(u64::MAX);
            let slice = usize::try_from(left).unwrap_or(SLICE).min(SLICE);
            // Of bodies whose length is not known, whatever has come is passed on.
            let wanted = body.promised().map_or(1, |_| slice);
            let turn = ahead.next(left).await;
            let gathered = self.server.gathers(wanted, self.shares().patience(), self.shares().clock()).await;
            if !gathered.map_err(|_| End::Broken(Broken::Reading))? {
                turn.give_back(0);
                ahead.give_back();
                self.server.holds(1).await.map_err(|_| End::Broken(Broken::Reading))?;
                continue;
            }
            let moved = self.pass_down(body, stream, slice).await?;
            turn.complete(moved.bytes);
            if moved.stopped == Stopped::Blocked {
                ahead.give_back();
            }
            self.after_reading(moved.stopped).await?;
        }
        Ok(())
    }

    async fn pass_down(&self, body: &mut Body, stream: &Stream, most: usize) -> Result<Moved, End> {
        let moved = pass(&self.server, &self.client, body, most).await.map_err(End::Broken)?;
        add(&stream.application().counters.down_bytes, moved.bytes);
        Ok(moved)
    }

    async fn after_reading(&self, stopped: Stopped) -> Result<(), End> {
        match stopped {
            Stopped::Done | Stopped::Dry => Ok(()),
            Stopped::Ended => Err(End::Cut),
            Stopped::Blocked => self.client.accepts().await.map_err(|_| End::Broken(Broken::Writing)),
        }
    }
}
