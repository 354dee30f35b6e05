//! Bytes pass unchanged, both ways.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

use crate::fixture::{Gate, content, read_head, scripted, server};

/// Sends this through a gate in pieces; the server must get the same, and the client the server's answer.
fn passes(request: &[u8], answer: &[u8], piece: usize) {
    let (address, received) = scripted(request.len(), answer.to_vec());
    let gate = Gate::before(address, "");
    let mut client = gate.connect();
    let mut writer = client.try_clone().expect("a handle");
    let sent = request.to_vec();
    let writing = thread::spawn(move || {
        for piece in sent.chunks(piece) {
            writer.write_all(piece).expect("the gate reads");
        }
    });
    let mut got = vec![0; answer.len()];
    client.read_exact(&mut got).unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(request)));
    assert!(got == answer, "the answer differs");
    writing.join().expect("all is written");
    assert!(received.recv().expect("the server got it") == request, "the request differs");
    client.shutdown(Shutdown::Both).expect("it is open");
}

fn put(headers: &str, body: &[u8]) -> Vec<u8> {
    [format!("PUT /b/k HTTP/1.1\r\n{headers}\r\n").as_bytes(), body].concat()
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 0\r\nx-OdD:  spaces \r\n\r\n";

#[test]
fn heads_keep_their_bytes_order_and_case() {
    let odd =
        b"\r\nGET /b//k%2f?x&=&acl HTTP/1.1\r\nhOsT:h\r\nX-A: 1\r\nX-A: 2\r\nx-empty:\r\nX-Bytes: \xe9\xff\r\n\r\n";
    passes(odd, OK, odd.len());
    passes(odd, OK, 1);
    passes(b"GET / HTTP/1.0\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\nall there is", 3);
}

#[test]
fn bodies_of_every_framing_pass_as_they_are() {
    let large = content(3 << 20, 1);
    passes(&put(&format!("Content-Length: {}\r\n", large.len()), &large), OK, 100_000);
    passes(&put("Content-Length: 5\r\n", b"small"), OK, 7);
    let aws_chunked = b"5;chunk-signature=0\r\nhello\r\n0;chunk-signature=1\r\nx-amz-trailer: a\r\n\r\n";
    let encoded = format!("Content-Encoding: aws-chunked\r\nContent-Length: {}\r\n", aws_chunked.len());
    passes(&put(&encoded, aws_chunked), OK, 9);
    let chunked = [b"300000\r\n", &large[..0x30_0000], b"\r\n3;x=y\r\nabc\r\n0\r\nTrailer: t\r\n\r\n"].concat();
    passes(&put("Transfer-Encoding: chunked\r\n", &chunked), OK, 70_001);
}

#[test]
fn answers_of_every_framing_pass_as_they_are() {
    let large = content(3 << 20, 2);
    let get = b"GET /b/k HTTP/1.1\r\n\r\n";
    let with_length = format!("HTTP/1.1 206 Partial\r\nContent-Length: {}\r\n\r\n", large.len());
    passes(get, &[with_length.as_bytes(), &large].concat(), 99);
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\nA: b\r\n\r\n";
    passes(get, chunked, 99);
    passes(get, &[b"HTTP/1.1 200 OK\r\n\r\n", &large[..]].concat(), 99);
    passes(b"HEAD /b/k HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", 99);
    passes(get, b"HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\n", 99);
    passes(b"DELETE /b/k HTTP/1.1\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n", 99);
}

#[test]
fn what_is_not_understood_passes_as_it_is() {
    passes(b"\x16\x03\x01 this is no HTTP \x00\xff", b"nor is this", 5);
    passes(&put("Content-Length: 3\r\nContent-Length: 4\r\n", b"abcd"), OK, 50);
    passes(&put("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", b"abc0\r\n\r\n"), OK, 50);
    passes(&put("Transfer-Encoding: chunked\r\n", b"not a size\r\nat all"), b"HTTP/1.1 400 Bad\r\n\r\n", 50);
    let endless = [b"GET / HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; 100_000], b"\r\n\r\n".to_vec()].concat();
    passes(&endless, b"HTTP/1.1 431 Too Large\r\nContent-Length: 0\r\n\r\n", 4096);
    passes(b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-what\r\n", 50);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let address = server(|mut stream| {
        for number in 0..200 {
            let head = read_head(&mut stream)?;
            assert!(head.starts_with(&format!("GET /b/{number} ")), "{head}");
            let body = content(number * 700, number as u64);
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len())?;
            stream.write_all(&body)?;
        }
        Ok(())
    });
    let gate = Gate::before(address, "");
    let mut client = gate.connect();
    let mut writer = client.try_clone().expect("a handle");
    let writing = thread::spawn(move || {
        let all: String = (0..200).map(|number| format!("GET /b/{number} HTTP/1.1\r\n\r\n")).collect();
        writer.write_all(all.as_bytes()).expect("the gate reads");
    });
    for number in 0..200_usize {
        let head = read_head(&mut client).expect("an answer");
        let mut body = vec![0; crate::fixture::content_length(&head)];
        client.read_exact(&mut body).expect("its body");
        assert!(body == content(number * 700, number as u64), "answer {number} is another's");
    }
    writing.join().expect("all is written");
}

#[test]
fn a_client_may_wait_for_100_continue() {
    let address = server(|mut stream| {
        read_head(&mut stream)?;
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        let mut body = vec![0; 300_000];
        stream.read_exact(&mut body)?;
        assert!(body == content(300_000, 3));
        stream.write_all(OK)
    });
    let gate = Gate::before(address, "");
    let mut client = gate.connect();
    client.write_all(b"PUT /b/k HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 300000\r\n\r\n").expect("sent");
    assert_eq!(read_head(&mut client).expect("an answer"), "HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(&content(300_000, 3)).expect("sent");
    assert_eq!(read_head(&mut client).expect("an answer").as_bytes(), OK);
}

#[test]
fn another_protocol_may_follow() {
    let address = server(|mut stream| {
        read_head(&mut stream)?;
        stream.write_all(b"HTTP/1.1 101 Switching\r\nUpgrade: echo\r\n\r\n")?;
        let mut bytes = [0; 3];
        for _ in 0..2 {
            stream.read_exact(&mut bytes)?;
            stream.write_all(&bytes)?;
        }
        Ok(())
    });
    let gate = Gate::before(address, "");
    let mut client = gate.connect();
    client.write_all(b"GET / HTTP/1.1\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n").expect("sent");
    assert!(read_head(&mut client).expect("an answer").starts_with("HTTP/1.1 101 "));
    let mut bytes = [0; 3];
    for word in [b"one", b"two"] {
        client.write_all(word).expect("sent");
        client.read_exact(&mut bytes).expect("an echo");
        assert_eq!(&bytes, word);
    }
}

#[test]
fn half_a_body_is_not_withheld() {
    let address = server(|mut stream| {
        read_head(&mut stream)?;
        let mut bytes = [0; 1000];
        for _ in 0..5 {
            stream.read_exact(&mut bytes)?;
            stream.write_all(b"HTTP/1.1 102 Processing\r\n\r\n")?;
        }
        stream.write_all(OK)
    });
    let gate = Gate::before(address, "");
    let mut client = gate.connect();
    client.write_all(b"PUT /b/k HTTP/1.1\r\nContent-Length: 100000\r\n\r\n").expect("sent");
    for _ in 0..5 {
        client.write_all(&[7; 1000]).expect("sent");
        assert!(read_head(&mut client).expect("news").starts_with("HTTP/1.1 102 "));
        thread::sleep(Duration::from_millis(30));
    }
    assert_eq!(read_head(&mut client).expect("an answer").as_bytes(), OK);
}
