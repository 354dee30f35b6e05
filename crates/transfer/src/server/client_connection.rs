//! One connection at the node, from Hello to its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use format::{Role, Secret};

use crate::Error;
use crate::connection::{Connection, Frame};
use crate::message::{Failure, FailureKind, Reply, Request};
use crate::random::random_bytes;
use crate::server::answer_memory::AnswerMemory;
use crate::server::closing::Closing;
use crate::server::frame_memory::FrameMemory;
use crate::server::heartbeats::Heartbeats;
use crate::service::{ClientSender, Handler, Hello, Service};

/// A client has this long to be welcomed, from the first byte to the last proof; port scanners send no Hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a node that stops waits for answers owed to one client.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Unanswered requests that one connection may have at a time. Clients of ours have some hundreds.
const MAX_UNANSWERED: usize = 16_384;

/// Serves one client until it leaves, misbehaves or the node stops. A panic of the handler is not caught: it is a broken
/// invariant of the node, whose process ends (see `thalweg node`).
pub(super) fn serve(
    (number, connection): (u64, &Arc<Connection>),
    peer: SocketAddr,
    service: &Arc<dyn Service>,
    (heartbeats, memory, answers): (&Heartbeats, &FrameMemory, &Arc<AnswerMemory>),
    closing: &Closing,
) {
    let outbox = ClientSender::new(connection.clone(), service.clone(), answers.clone());
    let end = match greet(connection, peer, service, &outbox) {
        Ok(Some(mut handler)) => {
            connection.welcome();
            heartbeats.add(number, outbox.clone());
            let end = attend(connection, memory, &outbox, handler.as_mut(), closing);
            closing.wait_while_suspended();
            handler.closed();
            end
        }
        Ok(None) => Ok(()),
        Err(failure) => Err(failure),
    };
    match &end {
        Ok(()) => tracing::info!(peer = %peer, "connection ended"),
        Err(failure) if failure.kind == FailureKind::Unavailable => tracing::info!(peer = %peer, "{}", failure.text),
        Err(failure) => tracing::warn!(peer = %peer, "{}", failure.text),
    }
    if closing.is_stopping() {
        outbox.wait_for_answers(ANSWER_TIMEOUT);
    }
    if let Err(goodbye) = end {
        // Best effort: the client may be gone, or wait for TLS and not understand.
        let _ = outbox.push(&Reply::Failed { failure: goodbye }, &[]);
        connection.close_gently();
    }
    heartbeats.remove(number);
    outbox.end();
}

type Goodbye = Failure;

/// Receives the first message, which must be a Hello. None when the client left without one.
fn greet(
    connection: &Connection,
    peer: SocketAddr,
    service: &Arc<dyn Service>,
    outbox: &ClientSender,
) -> Result<Option<Box<dyn Handler>>, Goodbye> {
    let deadline = Instant::now() + HELLO_TIMEOUT;
    let ended = |error| goodbye(connection, error);
    if let Some(tls) = service.tls() {
        connection.accept_tls(tls, deadline).map_err(ended)?;
    }
    let Some(frame) = connection.receive_greeting(deadline).map_err(ended)? else { return Ok(None) };
    let body = frame.body.clone();
    let (request, _, number) = decode(connection, frame)?;
    let Request::Hello { client, stream, job, application } = request else {
        return Err(refused("the first message must be Hello"));
    };
    if let Some(secret) = service.secret()
        && !challenge(connection, outbox, secret, &body, deadline)?
    {
        return Ok(None);
    }
    connection.set_receive_timeout(None).map_err(ended)?;
    let replier = outbox.replier(number);
    let hello = Hello { client, stream, job, application, peer };
    match service.connect(hello, outbox.clone()) {
        Ok((welcome, handler)) => {
            replier.reply(welcome);
            Ok(Some(handler))
        }
        Err(failure) => {
            replier.fail(failure);
            Ok(None)
        }
    }
}

/// Has the client prove the secret, and proves it in turn. False when the client left instead.
fn challenge(
    connection: &Connection,
    outbox: &ClientSender,
    secret: &Secret,
    hello: &[u8],
    deadline: Instant,
) -> Result<bool, Goodbye> {
    let ended = |error| goodbye(connection, error);
    let of_node = random_bytes().map_err(ended)?;
    outbox.push(&Reply::Challenge { nonce: of_node }, &[]).map_err(ended)?;
    // A client of ours that has no secret leaves.
    let Some(frame) = connection.receive_greeting(deadline).map_err(ended)? else {
        tracing::warn!(
            peer = connection.peer(),
            "authentication failed: the client left when the secret was asked for"
        );
        return Ok(false);
    };
    let (request, _, number) = decode(connection, frame)?;
    let Request::Prove { nonce: of_client, proof } = request else {
        tracing::warn!(peer = connection.peer(), "authentication failed: the client proved no secret");
        return Err(refused("this node serves only clients that prove its secret"));
    };
    if !secret.proves(&proof, Role::Client, &of_node, &of_client, hello) {
        tracing::warn!(peer = connection.peer(), "authentication failed: the client has another secret than the node");
        return Err(refused("the client has another secret than the node"));
    }
    let proof = secret.proof(Role::Node, &of_node, &of_client, hello);
    outbox.replier(number).reply(Reply::Proved { proof });
    Ok(true)
}

/// Hands requests to the handler until there are no more.
fn attend(
    connection: &Arc<Connection>,
    memory: &FrameMemory,
    outbox: &ClientSender,
    handler: &mut dyn Handler,
    closing: &Closing,
) -> Result<(), Goodbye> {
    while !closing.takes_nothing() {
        // Held until the request is handled, which is the next turn of the loop.
        let mut charge = memory.charge(connection);
        let frame = match connection.receive_charged(&mut |bytes| charge.grow(bytes)) {
            // The client sends it again to the successor.
            Ok(_) if closing.is_suspended() => return Ok(()),
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok(()),
            Err(error) => return Err(goodbye(connection, error)),
        };
        charge.finish();
        let (request, payload, number) = decode(connection, frame)?;
        if matches!(request, Request::Hello { .. } | Request::Prove { .. }) {
            return Err(refused("Hello and Prove come once, at the beginning"));
        }
        let is_beyond = outbox.unanswered() >= MAX_UNANSWERED;
        let replier = outbox.replier(number);
        if is_beyond {
            let text = format!("more than {MAX_UNANSWERED} requests of one connection wait for their answers");
            replier.fail(Failure::new(FailureKind::Refused, text));
        } else {
            handler.handle(request, payload, replier);
        }
    }
    Ok(())
}

fn decode(connection: &Connection, frame: Frame) -> Result<(Request, Vec<u8>, u64), Goodbye> {
    if frame.header.request == 0 {
        return Err(refused("request number 0 is the node's own"));
    }
    let request = Request::decode(frame.header.kind, &frame.body);
    let damaged = |source| goodbye(connection, Error::Protocol { peer: connection.peer().to_owned(), source });
    Ok((request.map_err(damaged)?, frame.payload, frame.header.request))
}

fn goodbye(connection: &Connection, error: Error) -> Goodbye {
    let kind = match error {
        Error::Protocol { source: format::Error::OtherProtocol { .. }, .. } => FailureKind::TooNew,
        Error::Protocol { .. } => FailureKind::Corrupt,
        // It speaks no TLS, so that it understands this answer.
        Error::Refused(_) => FailureKind::Refused,
        _ => FailureKind::Unavailable,
    };
    // The peer is the client, to whom its own port means nothing: the message names the node.
    let why = error.to_string();
    let why = why.strip_prefix(&format!("{}: ", connection.peer())).unwrap_or(&why);
    Failure::new(kind, format!("the node closed the connection: {why}"))
}

fn refused(why: &str) -> Goodbye {
    Failure::new(FailureKind::Refused, format!("the node closed the connection: {why}"))
}
