//! How connections end: each side sees what it would see of the other without a gate between.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType};

use crate::fixture::{Gate, TIMEOUT, content, read_head, server};

fn is_reset(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted)
}

#[test]
fn an_upload_cut_short_is_a_reset_at_the_server() {
    let (sender, received) = mpsc::channel();
    let address = server(move |mut stream| {
        read_head(&mut stream)?;
        let mut body = Vec::new();
        let end = stream.read_to_end(&mut body).map_err(|error| error.kind());
        let _ = sender.send((body, end));
        Ok(())
    });
    let gate = Gate::before(address, "");
    for framing in ["Content-Length: 900000", "Transfer-Encoding: chunked"] {
        let mut client = gate.connect();
        write!(client, "PUT /b/k HTTP/1.1\r\n{framing}\r\n\r\n").expect("sent");
        let begun = if framing.starts_with('C') { content(200_000, 1) } else { b"30d40\r\nabc".to_vec() };
        client.write_all(&begun).expect("sent");
        thread::sleep(Duration::from_millis(100));
        drop(client);
        let (body, end) = received.recv_timeout(TIMEOUT).expect("the server sees an end");
        assert!(end.is_err_and(is_reset), "{framing}: the server saw a clean end after {} bytes", body.len());
        assert!(begun.starts_with(&body), "{framing}: other bytes");
    }
}

#[test]
fn an_early_refusal_reaches_the_client() {
    const REFUSAL: &[u8] = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\nConnection: close\r\n\r\nreason";
    let address = server(|mut stream| {
        read_head(&mut stream)?;
        stream.write_all(REFUSAL)?;
        stream.shutdown(Shutdown::Write)?;
        // It reads a little more, as servers do, and closes with the rest unread.
        thread::sleep(Duration::from_millis(200));
        Ok(())
    });
    let gate = Gate::before(address, "");
    let mut client = gate.connect();
    let mut writer = client.try_clone().expect("a handle");
    let writing = thread::spawn(move || {
        write!(writer, "PUT /b/k HTTP/1.1\r\nContent-Length: 100000000\r\n\r\n").expect("sent");
        (0..1000).find_map(|_| writer.write_all(&[0; 100_000]).err()).map(|error| error.kind())
    });
    let mut answer = vec![0; REFUSAL.len()];
    client.read_exact(&mut answer).expect("the refusal");
    assert_eq!(answer, REFUSAL);
    let failed = writing.join().expect("it ends").expect("the server does not take 100 MB");
    assert!(is_reset(failed), "{failed}");
}

#[test]
fn an_answer_cut_short_is_not_a_whole_one() {
    let address = server(|mut stream| {
        read_head(&mut stream)?;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this")
    });
    let gate = Gate::before(address, "");
    let mut client = gate.connect();
    client.write_all(b"GET /b/k HTTP/1.1\r\n\r\n").expect("sent");
    let mut all = Vec::new();
    client.read_to_end(&mut all).expect("a clean end, as the server's");
    assert!(all.ends_with(b"only this"));
}

#[test]
fn a_client_that_goes_away_while_it_is_answered_ends_the_answer() {
    let (sender, received) = mpsc::channel();
    let address = server(move |mut stream| {
        read_head(&mut stream)?;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")?;
        let end = std::iter::repeat_with(|| stream.write_all(&[1; 65536])).find_map(Result::err);
        let _ = sender.send(end.expect("it ends").kind());
        Ok(())
    });
    let gate = Gate::before(address, "");
    let mut client = gate.connect();
    client.write_all(b"GET /b/k HTTP/1.1\r\n\r\n").expect("sent");
    client.read_exact(&mut [0; 1 << 20]).expect("a part");
    drop(client);
    let end = received.recv_timeout(TIMEOUT).expect("the server sees it");
    assert!(is_reset(end), "{end}");
}

#[test]
fn a_closed_keep_alive_connection_closes_the_servers() {
    let (sender, received) = mpsc::channel();
    let address = server(move |mut stream| {
        read_head(&mut stream)?;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
        let _ = sender.send(stream.read(&mut [0]).map_err(|error| error.kind()));
        Ok(())
    });
    let gate = Gate::before(address, "");
    let mut client = gate.connect();
    client.write_all(b"GET /b/k HTTP/1.1\r\n\r\n").expect("sent");
    read_head(&mut client).expect("an answer");
    drop(client);
    assert_eq!(received.recv_timeout(TIMEOUT).expect("the server sees it"), Ok(0));
}

#[test]
fn half_a_head_reaches_the_server_with_its_end() {
    let (sender, received) = mpsc::channel();
    let address = server(move |mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all)?;
        let _ = sender.send(all);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    });
    let gate = Gate::before(address, "");
    let mut client = gate.connect();
    client.write_all(b"GET /b/k HTT").expect("sent");
    client.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(received.recv_timeout(TIMEOUT).expect("the server sees it"), b"GET /b/k HTT");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 400 "));
}

#[test]
fn a_gate_without_a_server_resets_and_serves_when_it_returns() {
    // Bound, so that no other test gets the port, but not listening.
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = SocketAddr::try_from(rustix::net::getsockname(&socket).expect("an address")).expect("of IPv4");
    let gate = Gate::before(address, "");
    let mut client = gate.connect();
    let _ = client.write_all(b"GET / HTTP/1.1\r\n\r\n");
    assert!(client.read(&mut [0]).is_err_and(|error| is_reset(error.kind())));
    rustix::net::listen(&socket, 8).expect("it is bound");
    let listener = TcpListener::from(socket);
    let serving = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        read_head(&mut stream).expect("a request");
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("it listens");
    });
    let mut client = gate.connect();
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    assert!(read_head(&mut client).expect("an answer").starts_with("HTTP/1.1 204 "));
    serving.join().expect("it served");
}

#[test]
fn a_server_that_resets_is_a_reset_for_the_client_after_what_it_said() {
    let address = server(|mut stream| {
        read_head(&mut stream)?;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")?;
        stream.write_all(&[5; 100_000])?;
        // Closing with bytes unread is a reset.
        thread::sleep(Duration::from_millis(200));
        Ok(())
    });
    let gate = Gate::before(address, "");
    let mut client = gate.connect();
    client.write_all(b"PUT /b/k HTTP/1.1\r\nContent-Length: 3000\r\n\r\n").expect("sent");
    client.write_all(&[0; 3000]).expect("sent");
    read_head(&mut client).expect("an answer");
    let mut body = Vec::new();
    let end = client.read_to_end(&mut body);
    assert_eq!(body.len(), 100_000);
    assert!(end.is_err_and(|error| is_reset(error.kind())), "a reset looked like an end");
}

/// Closed clients of a silent server were kept for ever. One that has closed only its sending side may still be answered.
#[test]
fn a_client_that_has_ended_waits_for_its_server_for_a_minute_and_no_longer() {
    let address = server(|mut stream| {
        if read_head(&mut stream).unwrap_or_default().contains("slow") {
            thread::sleep(Duration::from_secs(40));
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
        }
        thread::sleep(Duration::from_secs(200));
        Ok(())
    });
    let gate = Gate::before(address, "");
    let begin = |request: &str| {
        let mut client = gate.connect();
        client.set_read_timeout(Some(Duration::from_secs(100))).expect("a timeout");
        client.write_all(request.as_bytes()).expect("sent");
        client.shutdown(Shutdown::Write).expect("it is open");
        client
    };
    let whole_upload = format!("PUT /b/k HTTP/1.1\r\nContent-Length: 8192\r\n\r\n{}", "x".repeat(8192));
    let requests = ["GET /b/k HTTP/1.1\r\n\r\n", "GET /b/k HTT", &whole_upload];
    let (mut slow, began) = (begin("GET /slow HTTP/1.1\r\n\r\n"), Instant::now());
    let mut unanswered = requests.map(begin);
    assert!(read_head(&mut slow).expect("an answer").starts_with("HTTP/1.1 204 "));
    for client in &mut unanswered {
        assert!(client.read(&mut [0]).is_err_and(|error| is_reset(error.kind())));
        assert!(began.elapsed() > Duration::from_secs(50), "{:?}", began.elapsed());
    }
}
