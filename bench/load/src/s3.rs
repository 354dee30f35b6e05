//! S3 over kept connections, one for each outstanding request, on one thread with epoll. Bodies that are written come
//! from one constant buffer; those that are read are dropped in the kernel (MSG_TRUNC), so the generator copies nothing
//! that it need not.

use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::ledger::Ledger;
use crate::plan::{Operation, Part, Plan, S3, Target, Turn};
use crate::sign::Signer;

/// Sent by one call, and dropped by one call, at most.
const PIECE: usize = 256 << 10;
/// The kernel's buffer for a body under way: what lies there counts as moved, so it is kept small.
const SEND_BUFFER: usize = 256 << 10;
const HEAD_LIMIT: usize = 16 << 10;
const RECONNECT: Duration = Duration::from_millis(50);

struct Client<'a> {
    part: &'a Part,
    s3: &'a S3,
    application: usize,
    number: usize,
    /// Requests begun.
    begun: u64,
    signer: Signer,
    connection: Option<OwnedFd>,
    state: State,
    began: Duration,
    operation: Operation,
}

enum State {
    /// Until this time.
    Resting(Duration),
    Sending {
        head: Vec<u8>,
        /// Of head and body together.
        sent: usize,
    },
    Head(Vec<u8>),
    Body {
        left: usize,
        closes: bool,
    },
    Done,
}

/// The state that all clients share.
struct IoContext<'a> {
    poll: OwnedFd,
    length: Duration,
    ledger: &'a Ledger,
    /// Where bodies would go; MSG_TRUNC drops them before.
    sink: Vec<u8>,
}

enum Step {
    Again,
    Blocked,
}

pub fn run(plan: &Plan, ledger: &Ledger) -> Result<()> {
    let poll = epoll::create(CreateFlags::CLOEXEC)?;
    let mut context = IoContext { poll, length: plan.length(), ledger, sink: vec![0; PIECE] };
    let mut clients = clients(plan)?;
    let mut events: Vec<epoll::Event> = Vec::with_capacity(1024);
    let mut awake: Vec<usize> = (0..clients.len()).collect();
    loop {
        for &index in &awake {
            clients[index].advance(&mut context, index);
        }
        awake.clear();
        let now = ledger.elapsed();
        let next = clients.iter().filter_map(Client::alarm).min();
        if now >= plan.length() || clients.iter().all(|client| matches!(client.state, State::Done)) {
            return Ok(());
        }
        wait(&context.poll, &mut events, next.unwrap_or(plan.length()).min(plan.length()).saturating_sub(now))?;
        awake.extend(events.drain(..).map(|event| event.data.u64() as usize));
        let now = ledger.elapsed();
        awake.extend((0..clients.len()).filter(|&index| clients[index].alarm().is_some_and(|time| time <= now)));
    }
}

fn wait(poll: &OwnedFd, events: &mut Vec<epoll::Event>, time: Duration) -> Result<()> {
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    match epoll::wait(poll, rustix::buffer::spare_capacity(events), Some(&time)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("epoll"),
    }
}

fn clients(plan: &Plan) -> Result<Vec<Client<'_>>> {
    let mut clients = Vec::new();
    for (application, part) in plan.parts() {
        let Target::S3(s3) = &part.target else { continue };
        ensure!(s3.objects > 0, "{} needs at least one object", s3.path);
        for number in 0..part.outstanding {
            clients.push(Client {
                part,
                s3,
                application,
                number,
                begun: 0,
                signer: Signer::new(&s3.access_key, &s3.secret_key),
                connection: None,
                state: State::Resting(Duration::ZERO),
                began: Duration::ZERO,
                operation: part.operation(number, 0),
            });
        }
    }
    Ok(clients)
}

impl Client<'_> {
    fn alarm(&self) -> Option<Duration> {
        match self.state {
            State::Resting(until) => Some(until),
            _ => None,
        }
    }

    /// Goes on until the socket blocks or there is nothing to do. A failure closes the connection and is counted.
    fn advance(&mut self, context: &mut IoContext, index: usize) {
        let ledger = context.ledger;
        loop {
            let stepped = match self.state {
                State::Done => return,
                State::Resting(until) if until > ledger.elapsed() => return,
                State::Resting(_) => self.begin(context, index),
                State::Sending { .. } => self.send(ledger),
                State::Head(_) => self.receive_head(ledger),
                State::Body { .. } => self.receive_body(context),
            };
            match stepped {
                Ok(Step::Again) => {}
                Ok(Step::Blocked) => return,
                Err(error) => {
                    ledger.failed(self.application, format!("{:?} {}: {error:#}", self.operation, self.s3.path));
                    self.connection = None;
                    self.state = State::Resting(ledger.elapsed() + RECONNECT);
                }
            }
        }
    }

    fn begin(&mut self, context: &IoContext, index: usize) -> Result<Step> {
        // Clients number their requests in turn, so that no two of them use one object at a time.
        let number = self.begun * self.part.outstanding as u64 + self.number as u64;
        self.state = match self.part.turn(context.ledger.elapsed(), context.length) {
            _ if self.part.requests.is_some_and(|requests| number >= requests) => State::Done,
            Turn::Over => State::Done,
            Turn::From(begin) => State::Resting(begin),
            Turn::On => {
                if self.connection.is_none() {
                    self.connection = Some(connect(&context.poll, index, self.s3.address)?);
                }
                self.operation = self.part.operation(self.number, self.begun);
                self.begun += 1;
                self.began = context.ledger.elapsed();
                State::Sending { head: self.head(number), sent: 0 }
            }
        };
        Ok(Step::Again)
    }

    fn head(&mut self, number: u64) -> Vec<u8> {
        let path = format!("{}{}", self.s3.path, number % self.s3.objects);
        let host = self.s3.address.to_string();
        match self.operation {
            Operation::Read => self.signer.head("GET", &host, &path, 0).into_bytes(),
            Operation::Write => self.signer.head("PUT", &host, &path, self.part.bytes).into_bytes(),
        }
    }

    fn send(&mut self, ledger: &Ledger) -> Result<Step> {
        static CONSTANT: [u8; PIECE] = [0x5a; PIECE];
        let State::Sending { head, sent } = &mut self.state else { unreachable!("only called while sending") };
        let connection = self.connection.as_ref().expect("a sender is connected");
        let body_bytes = if self.operation == Operation::Write { self.part.bytes } else { 0 };
        let total = head.len() + body_bytes;
        if *sent == total {
            self.state = State::Head(Vec::new());
            return Ok(Step::Again);
        }
        let piece = match sent.checked_sub(head.len()) {
            None => &head[*sent..],
            Some(of_body) => &CONSTANT[..(body_bytes - of_body).min(PIECE)],
        };
        let more = if *sent + piece.len() < total { SendFlags::MORE } else { SendFlags::empty() };
        match rustix::net::send(connection, piece, SendFlags::NOSIGNAL | more) {
            Ok(bytes) => {
                let of_body = (*sent + bytes).saturating_sub(head.len().max(*sent));
                *sent += bytes;
                if of_body > 0 {
                    ledger.moved(self.application, of_body, ledger.elapsed());
                }
                Ok(Step::Again)
            }
            // A nonblocking socket that is not connected yet returns the same error.
            Err(Errno::AGAIN | Errno::NOTCONN) => Ok(Step::Blocked),
            Err(error) => Err(error).context("send"),
        }
    }

    fn receive_head(&mut self, ledger: &Ledger) -> Result<Step> {
        let State::Head(head) = &mut self.state else { unreachable!("only called while a head is awaited") };
        let connection = self.connection.as_ref().expect("a receiver is connected");
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
        let received = match rustix::net::recv(connection, &mut buffer, RecvFlags::empty()) {
            Ok(((received, _), _)) => received,
            Err(Errno::AGAIN) => return Ok(Step::Blocked),
            Err(error) => return Err(error).context("receive"),
        };
        ensure!(!received.is_empty(), "the server closed the connection");
        head.extend_from_slice(received);
        let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") else {
            ensure!(head.len() < HEAD_LIMIT, "the answer's head has no end");
            return Ok(Step::Again);
        };
        let answer = Answer::parse(&head[..end])?;
        let body_got = head.len() - end - 4;
        if answer.status != 200 {
            bail!("status {}: {}", answer.status, String::from_utf8_lossy(&head[end + 4..]));
        }
        ensure!(body_got <= answer.body_bytes, "the answer is longer than it says");
        if self.operation == Operation::Read {
            ensure!(answer.body_bytes == self.part.bytes, "{} bytes instead of {}", answer.body_bytes, self.part.bytes);
            ledger.moved(self.application, body_got, ledger.elapsed());
        }
        self.state = State::Body { left: answer.body_bytes - body_got, closes: answer.closes };
        Ok(Step::Again)
    }

    fn receive_body(&mut self, context: &mut IoContext) -> Result<Step> {
        let ledger = context.ledger;
        let State::Body { left, closes } = &mut self.state else { unreachable!("only called within a body") };
        if *left == 0 {
            if *closes {
                self.connection = None;
            }
            let now = ledger.elapsed();
            ledger.answered(self.application, self.operation, self.part.bytes, self.began, now);
            self.state = State::Resting(now + Duration::from_millis(self.part.pause_ms));
            return Ok(Step::Again);
        }
        let connection = self.connection.as_ref().expect("a receiver is connected");
        let limit = (*left).min(PIECE);
        match rustix::net::recv(connection, &mut context.sink[..limit], RecvFlags::TRUNC) {
            Ok((_, 0)) => bail!("the server closed the connection within a body"),
            Ok((_, bytes)) => {
                *left -= bytes;
                if self.operation == Operation::Read {
                    ledger.moved(self.application, bytes, ledger.elapsed());
                }
                Ok(Step::Again)
            }
            Err(Errno::AGAIN) => Ok(Step::Blocked),
            Err(error) => Err(error).context("receive"),
        }
    }
}

fn connect(poll: &OwnedFd, index: usize, address: SocketAddr) -> Result<OwnedFd> {
    let family = if address.is_ipv4() { rustix::net::AddressFamily::INET } else { rustix::net::AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
    rustix::net::sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error).with_context(|| format!("connect to {address}")),
    }
    let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    epoll::add(poll, &socket, EventData::new_u64(index as u64), interest)?;
    Ok(socket)
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    body_bytes: usize,
    closes: bool,
}

impl Answer {
    fn parse(head: &[u8]) -> Result<Answer> {
        let text = std::str::from_utf8(head).context("the answer's head is no text")?;
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("no status line")?;
        let mut answer =
            Answer { status: status.parse().context("the status is no number")?, body_bytes: 0, closes: false };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                answer.body_bytes = value.parse().context("the answer's length is no number")?;
            } else if name.eq_ignore_ascii_case("connection") {
                answer.closes = value.eq_ignore_ascii_case("close");
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                bail!("a chunked answer, which this generator does not read (status {})", answer.status);
            }
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_from_its_head() {
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\nConnection: close";
        assert_eq!(Answer::parse(head).unwrap(), Answer { status: 200, body_bytes: 12, closes: true });
        assert!(Answer::parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked").is_err());
        assert!(Answer::parse(b"rubbish").is_err());
    }
}
