//! The application a request is counted for, by each fact that rules may ask for; groups; deadlines.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fixture::{Gate, TIMEOUT, read_head, server, spare_address, status};
use crate::rpc::{READ, call, message, next_xid, record, reply};

/// A gate with a metrics page before one server; `more` follows the lines of its listener.
struct Counting {
    gate: Gate,
    metrics: SocketAddr,
}

impl Counting {
    fn before(protocol: &str, server: SocketAddr, scheduler: &str, more: &str) -> Counting {
        let metrics = spare_address();
        let gate = Gate::with_file(&format!(
            "metrics = \"{metrics}\"\nscheduler = \"{scheduler}\"\ndepth = \"64 KiB\"\n\
             [[listen]]\nprotocol = \"{protocol}\"\naddress = \"127.0.0.1:0\"\nupstream = \"{server}\"\n{more}"
        ));
        Counting { gate, metrics }
    }

    fn application(&self, name: &str) -> Value {
        let said = status(self.metrics);
        let body = said.split_once("\r\n\r\n").expect("a head").1;
        let status: Value = serde_json::from_str(body).expect("JSON");
        let all = status["applications"].as_array().expect("a list");
        all.iter().find(|application| application["name"] == name).expect("it is shown").clone()
    }

    fn requests(&self, names: &[&str]) -> BTreeMap<String, u64> {
        let count = |name: &&str| ((*name).to_owned(), self.application(name)["requests"].as_u64().expect("a number"));
        names.iter().map(count).collect()
    }

    #[track_caller]
    fn has(&self, expected: &[(&str, u64)]) {
        let names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
        let expected: BTreeMap<String, u64> =
            expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let end = Instant::now() + TIMEOUT;
        while self.requests(&names) != expected {
            assert!(Instant::now() < end, "{:?} instead of {expected:?}", self.requests(&names));
            thread::sleep(Duration::from_millis(20));
        }
    }
}

const S3_RULES: &str = "
host_suffix = \"s3.example\"
[[application]]
name = \"key\"
match = { access_key = \"AK1\" }
[[application]]
name = \"prefix\"
match = { bucket = \"data\", prefix = [\"run1/\", \"run2/\"] }
[[application]]
name = \"bucket\"
match = { bucket = \"data\" }
[[application]]
name = \"header\"
match = { header = \"X-Job: climate\" }
[[application]]
name = \"elsewhere\"
match = { client = \"192.0.2.0/24\" }
[[application]]
name = \"here\"
match = { client = \"127.0.0.0/8\" }
";

#[test]
fn an_s3_request_counts_for_the_first_application_whose_rule_holds() {
    let answering = server(|mut stream| {
        loop {
            read_head(&mut stream)?;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
        }
    });
    let counting = Counting::before("s3", answering, "sfq-depth", S3_RULES);
    let mut client = counting.gate.connect();
    for head in [
        "GET /data/run1/a HTTP/1.1\r\nAuthorization: AWS4-HMAC-SHA256 Credential=AK1/20260101/r/s3/aws4_request\r\n",
        "GET /data/run2/a HTTP/1.1\r\n",
        "GET /run1/a HTTP/1.1\r\nHost: data.s3.example\r\n",
        "GET /data/run3/a HTTP/1.1\r\nX-Job: climate\r\n",
        "GET /other/run1/a HTTP/1.1\r\nx-job:  climate\r\n",
        "GET /other/run1/a HTTP/1.1\r\nX-Job: weather\r\n",
    ] {
        client.write_all(format!("{head}\r\n").as_bytes()).expect("sent");
        read_head(&mut client).expect("an answer");
    }
    counting.has(&[
        ("key", 1),
        ("prefix", 2),
        ("bucket", 1),
        ("header", 1),
        ("elsewhere", 0),
        ("here", 1),
        ("other", 0),
    ]);
}

/// A server that takes all and says nothing.
fn silent() -> SocketAddr {
    server(|mut stream| std::io::copy(&mut stream, &mut std::io::sink()).map(drop))
}

#[test]
fn an_nfs_call_counts_by_user_group_and_export() {
    let rules = "export = \"/climate\"\n\
                 [[application]]\nname = \"elsewhere\"\nmatch = { export = \"/genome\" }\n\
                 [[application]]\nname = \"user\"\nmatch = { uid = [7, 1], export = \"/climate\" }\n\
                 [[application]]\nname = \"group\"\nmatch = { gid = 100 }\n\
                 [[application]]\nname = \"export\"\nmatch = { export = \"/climate\" }\n";
    let counting = Counting::before("nfs", silent(), "fifo", rules);
    let mut client = counting.gate.connect();
    client.write_all(&call(1, READ, 1, 4096)).expect("sent");
    client.write_all(&call(2, READ, 2, 4096)).expect("sent");
    // Without credentials nothing but the export is known.
    let unsigned = message(3, READ, 1, 4096);
    let unsigned = [&unsigned[..24], &[0; 8], &unsigned[24 + 32..]].concat();
    client.write_all(&record(&unsigned)).expect("sent");
    counting.has(&[("elsewhere", 0), ("user", 1), ("group", 1), ("export", 1), ("other", 0)]);
}

#[test]
fn a_glusterfs_call_counts_by_the_volume_its_client_has_attached() {
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/rpc/gluster_10.3.calls");
    let recorded = std::fs::read(recorded).expect("recorded calls");
    for (volume, ours, others) in [("brick", 3, 0), ("scratch", 0, 3)] {
        let rules = format!("[[application]]\nname = \"ours\"\nmatch = {{ volume = \"{volume}\" }}\n");
        let counting = Counting::before("gluster", silent(), "fifo", &rules);
        counting.gate.connect().write_all(&recorded).expect("sent");
        counting.has(&[("ours", ours), ("other", others)]);
    }
}

/// Of 100 kB that a group of weight 3 shares 1:2 inside, beside an application of weight 1, 25, 50 and 25 are right.
#[test]
fn groups_share_first_and_then_their_members() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let rules = "[[group]]\nname = \"physics\"\nweight = 3\n\
                 [[application]]\nname = \"one\"\ngroup = \"physics\"\nmatch = { uid = 1 }\n\
                 [[application]]\nname = \"two\"\ngroup = \"physics\"\nweight = 2\nmatch = { uid = 2 }\n\
                 [[application]]\nname = \"alone\"\nmatch = { uid = 3 }\n";
    let address = listener.local_addr().expect("an address");
    let counting = Counting::before("nfs", address, "sfq-depth", rules);
    let mut client = counting.gate.connect();
    drain(&client);
    for at in 0..150 {
        for uid in [1, 2, 3] {
            client.write_all(&call(1000 * uid + at, READ, uid, 32 << 10)).expect("sent");
        }
    }
    let (mut server, _) = listener.accept().expect("the gate connects at the first call");
    server.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let mut served = [0; 3];
    for _ in 0..200 {
        let xid = next_xid(&mut server);
        served[xid as usize / 1000 - 1] += 1;
        server.write_all(&reply(xid, 32 << 10)).expect("the gate takes it");
    }
    let expected = [50, 100, 50];
    let is_near = served.iter().zip(expected).all(|(got, due): (&i32, i32)| (got - due).abs() <= 5);
    assert!(is_near, "{served:?} instead of {expected:?}");
}

fn drain(client: &TcpStream) {
    let mut client = client.try_clone().expect("a handle");
    thread::spawn(move || std::io::copy(&mut client, &mut std::io::sink()));
}

#[test]
fn what_is_late_is_named_and_stays_so_when_its_connection_has_ended() {
    let slow = server(|mut stream| {
        read_head(&mut stream)?;
        thread::sleep(Duration::from_millis(60));
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    });
    let rules = "[[application]]\nname = \"hurried\"\ndeadline_ms = 1\nmatch = { bucket = \"hurried\" }\n\
                 [[application]]\nname = \"patient\"\ndeadline_ms = 60000\nmatch = { bucket = \"patient\" }\n";
    let counting = Counting::before("s3", slow, "deadline", rules);
    for bucket in ["hurried", "patient"] {
        let mut client = counting.gate.connect();
        write!(client, "GET /{bucket}/k HTTP/1.1\r\nConnection: close\r\n\r\n").expect("sent");
        client.read_to_end(&mut Vec::new()).expect("an answer");
    }
    let [hurried, patient] = ["hurried", "patient"].map(|name| counting.application(name));
    assert!(hurried["late"].as_u64() >= Some(1) && hurried["worst_late_ms"].as_f64() > Some(1.0), "{hurried}");
    assert_eq!(patient["late"], 0, "{patient}");
}
