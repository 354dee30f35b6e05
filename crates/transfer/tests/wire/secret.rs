//! A node with a secret: a client that proves it is served, any other is refused, at both ends and with the same words
//! each time.

use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use format::{Role, Secret};
use transfer::client::{CREATE, Client, OpenError, Settings, WRITE};
use transfer::message::{Failure, FailureKind, Reply, Request};
use transfer::{ClientSender, Connection, Error, Handler, Hello, Remote, Replier, Server, Service};

use crate::fake::Fake;

/// Welcomes clients that prove the secret, and does nothing else.
struct Guarded(Secret);

struct Idle;

impl Service for Guarded {
    fn secret(&self) -> Option<&Secret> {
        Some(&self.0)
    }

    fn connect(&self, _: Hello, _: ClientSender) -> Result<(Reply, Box<dyn Handler>), Failure> {
        Ok((Reply::Welcome { settings: Fake::settings().to_text(), incarnation: 1 }, Box::new(Idle)))
    }
}

impl Handler for Idle {
    fn handle(&mut self, request: Request, _: Vec<u8>, replier: Replier) {
        match request {
            Request::MakeDurable {} => replier.reply(Reply::Done {}),
            _ => replier.fail(Failure::new(FailureKind::NotFound, "nothing is here")),
        }
    }

    fn closed(&mut self) {}
}

fn secret(number: u8) -> Secret {
    Secret::new(&[number; 32])
}

fn guarded() -> String {
    let server = Server::bind("127.0.0.1:0", Arc::new(Guarded(secret(1)))).unwrap();
    server.spawn();
    server.local_address().to_string()
}

fn remote(address: &str, secret: Option<Secret>) -> Result<Remote, Error> {
    Remote::connect_with(secret, address, 7, "job", "")
}

fn open(address: &str, secret: Option<Secret>) -> OpenError {
    let settings = Settings {
        nodes: vec![address.to_owned()],
        timeout: Duration::from_secs(3600),
        credentials: secret.into(),
        ..Settings::default()
    };
    Client::new(settings, None).open(b"/a", WRITE | CREATE).expect_err("nothing is there")
}

/// Checks that both kinds of clients are refused, at once and in words that contain `words`.
fn is_refused(address: &str, secret: Option<Secret>, words: &str) {
    let begun = Instant::now();
    let of_remote = remote(address, secret.clone()).err().expect("it is refused").to_string();
    let of_client = open(address, secret).to_string();
    for error in [of_remote, of_client] {
        assert!(error.contains(words) && !error.contains("not reached"), "{error}");
        assert!(error.contains(address), "it does not name the node: {error}");
    }
    assert!(begun.elapsed() < Duration::from_secs(120), "the timeout is an hour");
}

#[test]
fn clients_that_prove_the_secret_are_served_and_others_are_refused_at_once() {
    let address = guarded();
    let (reply, _) = remote(&address, Some(secret(1))).unwrap().call(&Request::MakeDurable {}, &[]).unwrap();
    assert_eq!(reply, Reply::Done {});
    assert!(open(&address, Some(secret(1))).to_string().contains("nothing is here"));
    is_refused(&address, None, "THALWEG_SECRET_FILE");
    is_refused(&address, Some(secret(2)), "another secret");
}

#[test]
fn a_client_with_a_secret_refuses_a_node_that_does_not_prove_it() {
    let server = Fake::new(1).serve();
    let address = server.local_address().to_string();
    assert!(remote(&address, None).is_ok());
    is_refused(&address, Some(secret(1)), "did not prove");
}

/// Serves as a node that does not have the secret, and sends back what the client sent.
fn impostor() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        while let Ok((stream, peer)) = listener.accept() {
            let connection = Connection::accepted(stream, peer).unwrap();
            let Ok(Some(_hello)) = connection.receive() else { continue };
            let say = |number, reply: Reply| connection.send(reply.kind(), number, &reply.encode(), &[]);
            let _ = say(0, Reply::Challenge { nonce: [9; 32] });
            let Ok(Some(frame)) = connection.receive() else { continue };
            let Ok(Request::Prove { proof, .. }) = Request::decode(frame.header.kind, &frame.body) else { continue };
            let _ = say(frame.header.request, Reply::Proved { proof });
            let _ = say(1, Reply::Welcome { settings: Fake::settings().to_text(), incarnation: 1 });
            let _ = connection.receive();
        }
    });
    address
}

#[test]
fn a_proof_that_is_reflected_proves_nothing() {
    is_refused(&impostor(), Some(secret(1)), "another secret");
}

#[test]
fn before_it_is_welcome_a_client_can_say_only_little_and_only_what_belongs_there() {
    let address = guarded();
    let hello = Request::Hello { client: 1, stream: 2, job: String::new(), application: String::new() };
    let refusal = |requests: &[(Request, &[u8])]| {
        let connection = Connection::open(&address).unwrap();
        for (number, (request, payload)) in requests.iter().enumerate() {
            // The node may have hung up before the last one.
            let _ = connection.send(request.kind(), 1 + number as u64, &request.encode(), &[payload]);
        }
        loop {
            let frame = connection.receive().unwrap().expect("the node says why");
            match Reply::decode(frame.header.kind, &frame.body).unwrap() {
                Reply::Challenge { .. } => continue,
                Reply::Failed { failure } => return failure.text,
                other => panic!("{other:?}"),
            }
        }
    };
    assert!(
        refusal(&[(hello.clone(), b""), (Request::PathSessions { after: format::SessionId(0) }, b"")])
            .contains("prove its secret")
    );
    assert!(refusal(&[(hello.clone(), b""), (hello.clone(), b"")]).contains("prove its secret"));
    assert!(refusal(&[(hello.clone(), &[0; 70_000])]).contains("above the limit"));
    let job = "x".repeat(20_000);
    let long = Request::Hello { client: 1, stream: 2, job, application: String::new() };
    assert!(refusal(&[(long, b"")]).contains("above the limit"));
    // The tag of another connection's nonces.
    let proof = secret(1).proof(Role::Client, &[0; 32], &[1; 32], &hello.encode());
    assert!(refusal(&[(hello, b""), (Request::Prove { nonce: [1; 32], proof }, b"")]).contains("another secret"));
}
