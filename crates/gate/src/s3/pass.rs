//! Moves bytes of a body from one end to the other, as many as come and are accepted at once.

use std::future::poll_fn;
use std::task::{Context, Poll};

use crate::s3::body::Body;
use crate::wire::{Seen, Wire};

#[derive(Debug)]
pub(crate) struct Moved {
    pub bytes: u64,
    pub stopped: Stopped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// All that was asked for has been moved, or the body is over.
    Done,
    /// Nothing more has arrived.
    Dry,
    /// The end to write to accepts no more now.
    Blocked,
    /// Nothing more will arrive.
    Ended,
}

/// Which end failed.
#[derive(Debug)]
pub(crate) enum Broken {
    Reading,
    Writing,
}

/// Moves at most `most` bytes of the body. Returns at once; with TLS, accepted bytes are still to be flushed.
pub(crate) async fn pass(from: &Wire, to: &Wire, body: &mut Body, most: usize) -> Result<Moved, Broken> {
    poll_fn(|context| Poll::Ready(pass_now(context, from, to, body, most))).await
}

fn pass_now(context: &mut Context<'_>, from: &Wire, to: &Wire, body: &mut Body, most: usize) -> Result<Moved, Broken> {
    let mut total = 0;
    let mut stopped = Stopped::Done;
    // The waker of the reading end is the writing end's too: both belong to one task.
    let waker = context.waker().clone();
    while total < most && !body.is_over() && stopped == Stopped::Done {
        let seen = from.look_now(context, most - total, |bytes| {
            // Where the body ends is found in a copy: it advances by what is accepted only.
            let length = body.clone().advance(bytes);
            let written = to.write_now(&mut Context::from_waker(&waker), &bytes[..length]);
            let accepted = *written.as_ref().unwrap_or(&0);
            body.advance(&bytes[..accepted]);
            (accepted, written.map(|accepted| (accepted, accepted == length)))
        });
        match seen.map_err(|_| Broken::Reading)? {
            Seen::Nothing => stopped = Stopped::Dry,
            Seen::End => stopped = Stopped::Ended,
            Seen::Some(written) => {
                let (accepted, is_all) = written.map_err(|_| Broken::Writing)?;
                total += accepted;
                if !is_all {
                    stopped = Stopped::Blocked;
                }
            }
        }
    }
    Ok(Moved { bytes: total as u64, stopped })
}
