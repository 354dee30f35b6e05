//! TLS at both ends, with certificates made by openssl for the test.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, Stream};

use crate::fixture::{Gate, content, server};

const OBJECT: usize = 3 << 20;

/// A certificate that vouches for itself, for `localhost`.
pub fn make_certificate(folder: &Path) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "key.pem", "-out", "certificate.pem"])
        .current_dir(folder)
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

pub fn server_config(folder: &Path) -> Arc<ServerConfig> {
    let chain = vec![CertificateDer::from_pem_file(folder.join("certificate.pem")).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_file(folder.join("key.pem")).expect("a key");
    let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
    Arc::new(builder.with_single_cert(chain, key).expect("they belong together"))
}

pub fn client_config(folder: &Path) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.join("certificate.pem")).expect("a certificate")).expect("added");
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

#[test]
fn both_ends_may_be_encrypted() {
    let folder = tempfile::tempdir().expect("a folder");
    make_certificate(folder.path());
    let (ours, theirs) = (server_config(folder.path()), client_config(folder.path()));
    let address = server(move |mut stream| {
        let mut tls = ServerConnection::new(ours.clone()).map_err(std::io::Error::other)?;
        let mut tls = Stream::new(&mut tls, &mut stream);
        let mut request = vec![0; REQUEST.len() + OBJECT];
        tls.read_exact(&mut request)?;
        assert!(request[REQUEST.len()..] == content(OBJECT, 8));
        write!(tls, "HTTP/1.1 200 OK\r\nContent-Length: {OBJECT}\r\n\r\n")?;
        tls.write_all(&content(OBJECT, 9))
    });
    let file = format!(
        "[[listen]]\nprotocol = \"s3\"\naddress = \"127.0.0.1:0\"\nupstream = \"{address}\"\n\
         tls = {{ certificate = \"certificate.pem\", key = \"key.pem\" }}\n\
         upstream_tls = {{ ca = \"certificate.pem\", name = \"localhost\" }}\n"
    );
    let gate = Gate::in_folder(folder, &file);
    let mut stream = gate.connect();
    let name = "localhost".try_into().expect("a name");
    let mut tls = ClientConnection::new(theirs, name).expect("a client");
    let mut tls = Stream::new(&mut tls, &mut stream);
    tls.write_all(REQUEST).expect("sent");
    tls.write_all(&content(OBJECT, 8)).expect("sent");
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 3145728\r\n\r\n";
    let mut answer = vec![0; head.len() + OBJECT];
    tls.read_exact(&mut answer).expect("an answer");
    assert!(answer.starts_with(head) && answer[head.len()..] == content(OBJECT, 9));
}

const REQUEST: &[u8] = b"PUT /b/k HTTP/1.1\r\nContent-Length: 3145728\r\n\r\n";
