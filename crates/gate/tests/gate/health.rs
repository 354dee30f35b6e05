//! The state of servers at `/health`.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use crate::fixture::{Gate, TIMEOUT, page, spare_address};

fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain for: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn a_client_is_reset(gate: &Gate) {
    let mut client = gate.connect();
    let _ = client.write_all(b"GET /b/k HTTP/1.1\r\n\r\n");
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{answer:?}");
}

/// It said ok whatever the server did.
#[test]
fn health_says_whether_the_server_takes_connections() {
    for protocol in ["s3", "nfs"] {
        let (metrics, server) = (spare_address(), spare_address());
        let gate = Gate::with_file(&format!(
            "metrics = \"{metrics}\"\n[[listen]]\nprotocol = \"{protocol}\"\naddress = \"127.0.0.1:0\"\n\
             upstream = \"{server}\"\n"
        ));
        let is_well = || page(metrics, "/health").starts_with("HTTP/1.1 200 OK\r\n");
        assert!(is_well(), "nothing is known of the server");
        a_client_is_reset(&gate);
        // The gate tries again by itself.
        until("the server is unreachable", || !is_well());
        let said = page(metrics, "/health");
        assert!(said.starts_with("HTTP/1.1 503 ") && said.contains(&server.to_string()), "{said}");
        assert!(said.contains("refused"), "{said}");
        assert!(page(metrics, "/page.json").contains("attempts to connect failed"));
        let back = TcpListener::bind(server).expect("the port is free");
        until("the server is there again, which no client asked", is_well);
        drop(back);
    }
}
