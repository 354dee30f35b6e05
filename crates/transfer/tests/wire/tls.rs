//! TLS with certificates that openssl made: the right authority is served, everything else refused in clear words, by
//! both kinds of clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use transfer::client::{CREATE, Client, Settings, WRITE};
use transfer::message::{Failure, FailureKind, Reply, Request};
use transfer::{
    ClientSender, Credentials, Error, Handler, Hello, Remote, Replier, Server, Service, TlsClient, TlsServer,
};

use crate::fake::Fake;

/// Speaks TLS or not, and answers Measure with a payload and MakeDurable.
struct Node(Option<TlsServer>);

struct Plain;

impl Service for Node {
    fn tls(&self) -> Option<&TlsServer> {
        self.0.as_ref()
    }

    fn connect(&self, _: Hello, _: ClientSender) -> Result<(Reply, Box<dyn Handler>), Failure> {
        Ok((Reply::Welcome { settings: Fake::settings().to_text(), incarnation: 1 }, Box::new(Plain)))
    }
}

impl Handler for Plain {
    fn handle(&mut self, request: Request, payload: Vec<u8>, replier: Replier) {
        match request {
            Request::Measure {} => replier.reply_with(Reply::Measured { workers: 3 }, &[&payload]),
            _ => replier.fail(Failure::new(FailureKind::NotFound, "nothing is here")),
        }
    }

    fn closed(&mut self) {}
}

static CERTIFICATES: OnceLock<PathBuf> = OnceLock::new();

/// At the end of the tests' process, which drops no statics.
extern "C" fn remove_certificates() {
    let _ = CERTIFICATES.get().map(std::fs::remove_dir_all);
}

/// Makes two authorities, and certificates of the first: right, for another name, and expired.
fn certificates() -> &'static PathBuf {
    CERTIFICATES.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("thalweg-tls-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        // SAFETY: it is a function of this process, and calls nothing that the end of it forbids.
        assert_eq!(unsafe { libc::atexit(remove_certificates) }, 0);
        let script = "
            for ca in ca other; do
                openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $ca.key -out $ca.pem \
                    -days 2 -subj /CN=$ca
            done
            certify() {
                openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $1.key -out $1.csr -subj /CN=$1
                echo subjectAltName=$2 > $1.ext
                openssl x509 -req -in $1.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile $1.ext -out $1.pem $3
            }
            certify right IP:127.0.0.1,DNS:localhost '-days 2'
            certify elsewhere DNS:elsewhere.example '-days 2'
            cp right.key bare.key
            openssl x509 -req -in right.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out bare.pem -days 2
            certify expired IP:127.0.0.1 '-days 2'
            printf '[ca]\\ndefault_ca=d\\n[d]\\ndatabase=db\\nserial=sn\\nnew_certs_dir=.\\ndefault_md=sha256\\npolicy=p\\n' > cnf
            printf '[p]\\ncommonName=optional\\n' >> cnf
            touch db
            openssl ca -batch -config cnf -cert ca.pem -keyfile ca.key -create_serial -notext -extfile expired.ext \
                -startdate 20200101000000Z -enddate 20200201000000Z -in expired.csr -out expired.pem";
        let made = Command::new("sh").args(["-c", &format!("set -e; {script}")]).current_dir(&folder).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        folder
    })
}

/// Starts a node with this certificate, or a plain one.
fn node(certificate: Option<&str>) -> String {
    let file = |name: &str, kind| certificates().join(format!("{name}.{kind}"));
    let tls = certificate.map(|name| TlsServer::load(&file(name, "pem"), &file(name, "key")).unwrap());
    let server = Server::bind("127.0.0.1:0", Arc::new(Node(tls))).unwrap();
    server.spawn();
    server.local_address().to_string()
}

fn credentials(ca: Option<&str>) -> Credentials {
    let tls = ca.map(|name| TlsClient::load(&certificates().join(format!("{name}.pem"))).unwrap());
    Credentials { secret: None, tls }
}

fn remote(address: &str, ca: Option<&str>) -> Result<Remote, Error> {
    Remote::connect_with(credentials(ca), address, 7, "job", "")
}

/// Returns the result of a program's client that opens a file.
fn open(address: &str, ca: Option<&str>) -> String {
    let settings = Settings {
        nodes: vec![address.to_owned()],
        timeout: Duration::from_secs(3600),
        credentials: credentials(ca),
        ..Settings::default()
    };
    Client::new(settings, None).open(b"/a", WRITE | CREATE).expect_err("nothing is there").to_string()
}

fn is_refused(certificate: Option<&str>, ca: Option<&str>, words: &str) {
    let (address, begun) = (node(certificate), Instant::now());
    let of_remote = remote(&address, ca).err().expect("it is refused").to_string();
    let of_client = open(&address, ca);
    for error in [of_remote, of_client] {
        assert!(error.contains(words), "{error}");
    }
    assert!(begun.elapsed() < Duration::from_secs(120), "the timeout is an hour");
}

#[test]
fn both_kinds_of_clients_speak_tls_with_a_node_whose_authority_they_know() {
    let address = node(Some("right"));
    let remote = remote(&address, Some("ca")).unwrap();
    for bytes in [0, 1, 16 << 10, 100_000, 20 << 20] {
        let payload: Vec<u8> = (0..bytes).map(|number: u32| (number * 31) as u8).collect();
        let (reply, echoed) = remote.call(&Request::Measure {}, &[&payload]).unwrap();
        assert!(matches!(reply, Reply::Measured { .. }) && echoed == payload, "{bytes}");
    }
    assert!(open(&address, Some("ca")).contains("nothing is here"));
    let by_name = address.replace("127.0.0.1", "localhost");
    assert!(open(&by_name, Some("ca")).contains("nothing is here"));
}

#[test]
fn a_certificate_that_does_not_vouch_for_the_node_is_refused_at_once() {
    is_refused(Some("right"), Some("other"), "not signed by an authority in");
    is_refused(Some("elsewhere"), Some("ca"), "for another name");
    is_refused(Some("expired"), Some("ca"), "has expired");
}

#[test]
fn a_plain_end_and_one_with_tls_refuse_each_other_in_clear_words() {
    is_refused(Some("right"), None, "THALWEG_TLS_CA");
    is_refused(None, Some("ca"), "does not use TLS");
}

#[test]
fn nothing_of_a_connection_with_tls_can_be_read_on_the_way() {
    let (address, listener) = (node(Some("right")), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let between = listener.local_addr().unwrap().to_string();
    let overheard = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut node = TcpStream::connect(address).unwrap();
        let (mut back, mut to_client) = (node.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut back, &mut to_client));
        let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = client.read(&mut buffer) {
            heard.extend_from_slice(&buffer[..count]);
            node.write_all(&buffer[..count]).unwrap();
        }
        heard
    });
    let remote = Remote::connect_with(credentials(Some("ca")), &between, 7, "a very secret job", "").unwrap();
    remote.call(&Request::Measure {}, &[b"very secret words"]).unwrap();
    drop(remote);
    let heard = overheard.join().unwrap();
    assert!(heard.len() > 100 && !heard.windows(11).any(|bytes| bytes == b"very secret"));
}

#[test]
fn a_handshake_that_stops_in_the_middle_is_given_up() {
    let address = node(Some("right"));
    let begun = Instant::now();
    // The beginning of a record of 512 bytes.
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.write_all(&[0x16, 3, 1, 2, 0, 1]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(150))).unwrap();
    let dripping = stream.try_clone().unwrap();
    std::thread::spawn(move || {
        while (&dripping).write_all(&[0]).is_ok() && begun.elapsed() < Duration::from_secs(140) {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    let _ = stream.read_to_end(&mut Vec::new());
    assert!((25..90).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    assert!(remote(&address, Some("ca")).is_ok());
}

#[test]
fn a_key_that_others_may_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let (certificate, key) = (certificates().join("right.pem"), certificates().join("right-open.key"));
    std::fs::copy(certificates().join("right.key"), &key).unwrap();
    for mode in [0o644, 0o604, 0o620, 0o666] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        let error = TlsServer::load(&certificate, &key).unwrap_err().to_string();
        assert!(error.contains("chmod 600") && error.contains("right-open.key"), "{mode:o}: {error}");
    }
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o400)).unwrap();
    TlsServer::load(&certificate, &key).unwrap();
}

#[test]
fn certificates_as_openssl_makes_them_by_default_are_refused_in_words_that_help() {
    let file = |name: &str| certificates().join(name);
    let bare = TlsServer::load(&file("bare.pem"), &file("bare.key")).map(drop).unwrap_err().to_string();
    assert!(bare.contains("subjectAltName"), "{bare}");
    let other = TlsServer::load(&file("right.pem"), &file("elsewhere.key")).map(drop).unwrap_err().to_string();
    assert!(other.contains("does not go with"), "{other}");
    is_refused(Some("ca"), Some("ca"), "the authority itself");
}
