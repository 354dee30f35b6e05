//! Ends connections whose clients have gone while the gate does not read from them.
//!
//! A reset shows at once. An orderly end does not: TCP sends it behind the client's unsent bytes, and those wait for the
//! window that the gate keeps closed. So the kernel is made to take these bytes, of a few clients at a time.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::io::Interest;
use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, sleep, timeout};

use crate::socket::{self, ENDED_TIMEOUT};

use super::connection::{Connection, Ending, Result};

/// As many clients' unread bytes as the kernel is made to take at a time. Each is given `UNREAD_ROOM_BYTES` for as long
/// as it is not read from, so this bounds what clients that turn out to live can fill.
pub const MAX_UNREAD_ROOMS: usize = 16;
/// The default limit on unsent bytes of a Linux socket (the maximum of net.ipv4.tcp_wmem).
const UNREAD_ROOM_BYTES: u32 = 4 << 20;
/// [`ENDED_TIMEOUT`] where memory is short, so that others are not read from because of what such a client holds.
const ENDED_TIMEOUT_WHEN_SHORT: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often, and for how long, the end is looked for that the kernel was made room for: some round trips.
const END_INTERVAL: Duration = Duration::from_millis(20);
const END_TIMEOUT: Duration = Duration::from_secs(1);

impl Connection {
    /// Returns when the client has gone, also while it is not read from.
    pub(super) async fn until_abandoned(&self) -> Ending {
        tokio::select! {
            ending = self.until_reset() => ending,
            ending = self.until_ended_in_vain() => ending,
        }
    }

    async fn until_reset(&self) -> Ending {
        loop {
            match self.client.ready(Interest::ERROR).await {
                Err(error) => return error.into(),
                Ok(_) if socket::is_closed(&self.client) => return io::Error::from(ErrorKind::ConnectionReset).into(),
                // An error that passes; its mark stays, so it is not waited for again at once.
                Ok(_) => sleep(LOOK_INTERVAL).await,
            }
        }
    }

    /// Returns when the client has ended, is not read from, and has had no answer for long.
    async fn until_ended_in_vain(&self) -> Ending {
        let mut room = None;
        loop {
            self.window.until_it_waits().await;
            sleep(LOOK_INTERVAL).await;
            if !self.window.is_waiting() || self.owed_since.get().elapsed() < self.ended_timeout() {
                room = None;
                continue;
            }
            if room.is_none() && !socket::has_ended(&self.client) {
                room = match self.let_the_end_arrive().await {
                    Ok(room) => room,
                    Err(ending) => return ending,
                };
            }
            if socket::has_ended(&self.client) {
                return io::Error::from(ErrorKind::ConnectionAborted).into();
            }
        }
    }

    fn ended_timeout(&self) -> Duration {
        let was_short = self.window.budget().was_short_within(ENDED_TIMEOUT);
        if was_short { ENDED_TIMEOUT_WHEN_SHORT } else { ENDED_TIMEOUT }
    }

    /// Makes the kernel take what the client has left to send, and its end behind that, unless it does so for too many
    /// others now.
    async fn let_the_end_arrive(&self) -> Result<Option<SemaphorePermit<'_>>> {
        let rooms = &self.window.budget().unread_rooms;
        let Ok(Ok(room)) = timeout(LOOK_INTERVAL, rooms.acquire()).await else { return Ok(None) };
        let began = Instant::now();
        if !self.window.is_waiting() {
            return Ok(None);
        }
        socket::make_room_unread(&self.client, UNREAD_ROOM_BYTES)?;
        while !socket::has_ended(&self.client) && began.elapsed() < END_TIMEOUT {
            socket::offer_room(&self.client);
            sleep(END_INTERVAL).await;
        }
        Ok(Some(room))
    }
}
