//! TLS between a client and a node, from files: the node has a certificate and its key, the client the authorities that
//! it trusts. A process that names authorities speaks TLS with every node; nothing is negotiated, so that no attacker
//! between the two can downgrade them.
//!
//! [`TlsStream`] has no socket: it is given functions that receive and send, which may wait or not. One thread may read
//! while another writes.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use format::{ErrorCode, Secret};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use crate::regular_file::read_regular;
use crate::secret_file::{read_private, secret_of_environment, secret_of_job};
use crate::{Error, Result};

/// Names the file with the authorities that this process trusts.
pub const TLS_CA_VARIABLE: &str = "THALWEG_TLS_CA";
/// Received at a time (bytes).
const INBOX_BYTES: usize = 64 << 10;
/// First bytes of TLS records: alerts and handshakes.
const FIRST_BYTES: [u8; 2] = [0x15, 0x16];

/// A client's credentials: what it shows to nodes, and demands of them.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    pub secret: Option<Secret>,
    pub tls: Option<TlsClient>,
}

impl Credentials {
    /// Returns the credentials that `THALWEG_SECRET_FILE` and `THALWEG_TLS_CA` name.
    pub fn of_environment() -> Result<Self> {
        let named = std::env::var_os(TLS_CA_VARIABLE).filter(|path| !path.is_empty());
        let tls = named.map(|path| TlsClient::load(&PathBuf::from(path))).transpose()?;
        Ok(Credentials { secret: secret_of_environment()?, tls })
    }

    /// Returns the credentials of a job's own nodes: its secret, and no TLS, for they are on this machine. None without
    /// such nodes.
    pub fn of_job() -> Result<Option<Self>> {
        Ok(secret_of_job()?.map(|secret| Some(secret).into()))
    }

    /// Returns the credentials that the environment names for the node at `address`.
    pub fn of_environment_for(address: &str) -> Result<Self> {
        let of_job = if serves_this_job(address) { Self::of_job()? } else { None };
        of_job.map_or_else(Self::of_environment, Ok)
    }
}

/// Returns whether it is one of the nodes that this process's job was given.
pub fn serves_this_job(address: &str) -> bool {
    let nodes = std::env::var("THALWEG_NODES").unwrap_or_default();
    nodes.split(',').any(|node| node.trim() == address)
}

impl From<Option<Secret>> for Credentials {
    fn from(secret: Option<Secret>) -> Self {
        Credentials { secret, tls: None }
    }
}

/// A client that speaks TLS, and nothing else.
#[derive(Clone, Debug)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    ca: PathBuf,
}

impl TlsClient {
    /// Loads the only authorities to trust from this PEM file.
    pub fn load(ca: &Path) -> Result<Self> {
        let wrong = |why: String| Error::Refused(ErrorCode::TlsRefused, format!("{}: {why}", ca.display()));
        let mut roots = RootCertStore::empty();
        for certificate in read_certificates(ca)? {
            roots.add(certificate).map_err(|error| wrong(format!("no usable authority: {error}")))?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(TlsClient { config: Arc::new(config), ca: ca.to_owned() })
    }

    /// Returns a connection to `host:port`, whose certificate must be for the host as it is written there.
    pub(crate) fn stream(&self, address: &str) -> Result<TlsStream> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let refuse = |why: String| Error::Refused(ErrorCode::TlsRefused, format!("{address}: {why}"));
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| refuse("no certificate can be for this host's name".into()))?;
        let session = ClientConnection::new(self.config.clone(), name).map_err(|error| refuse(error.to_string()))?;
        Ok(TlsStream::new(session.into(), Side::Client(self.ca.clone())))
    }
}

/// Limit of a file with a private key.
const MAX_KEY_BYTES: u64 = 1 << 20;

/// A node's certificate and key.
#[derive(Clone, Debug)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
}

impl TlsServer {
    pub fn load(certificate: &Path, key: &Path) -> Result<Self> {
        let wrong =
            |path: &Path, why: String| Error::Refused(ErrorCode::TlsRefused, format!("{}: {why}", path.display()));
        let chain = read_certificates(certificate)?;
        let text = read_private(key, "private key", "--tls-key names it", MAX_KEY_BYTES)?;
        let read = PrivateKeyDer::from_pem_slice(text.as_bytes());
        let read = read.map_err(|error| wrong(key, format!("no private key: {error}")))?;
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map(|builder| builder.with_no_client_auth())
            .and_then(|builder| builder.with_single_cert(chain, read));
        let refused = |error| match error {
            rustls::Error::InconsistentKeys(_) => wrong(certificate, format!("does not go with {}", key.display())),
            error => wrong(certificate, format!("no usable certificate of a node: {}", in_words(&error))),
        };
        Ok(TlsServer { config: Arc::new(config.map_err(refused)?) })
    }

    pub(crate) fn stream(&self) -> Result<TlsStream> {
        let session = ServerConnection::new(self.config.clone());
        let session = session.map_err(|error| Error::Refused(ErrorCode::TlsRefused, format!("TLS: {error}")))?;
        Ok(TlsStream::new(session.into(), Side::Node))
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let wrong = |why: String| Error::Refused(ErrorCode::TlsRefused, format!("{}: {why}", path.display()));
    let text = read_regular(path).map_err(|error| wrong(format!("no PEM certificates: {error}")))?;
    let found = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<std::result::Result<Vec<_>, _>>();
    let found = found.map_err(|error| wrong(format!("no PEM certificates: {error}")))?;
    if found.is_empty() { Err(wrong("holds no certificate".to_owned())) } else { Ok(found) }
}

/// One connection's encryption.
pub(crate) struct TlsStream {
    side: Side,
    session: Mutex<rustls::Connection>,
    /// Received bytes not yet decrypted.
    inbox: Mutex<Inbox>,
    /// Encrypted bytes not yet sent, in order.
    outbox: Mutex<Vec<u8>>,
}

enum Side {
    /// With the file of its authorities, for messages.
    Client(PathBuf),
    Node,
}

struct Inbox {
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    has_begun: bool,
}

/// Why a peer is refused for good, however often it is tried.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct TlsRefusal(String);

impl TlsRefusal {
    /// Returns the refusal in an error of [`TlsStream`], if it is one.
    pub fn of(error: &io::Error) -> Option<&TlsRefusal> {
        error.get_ref()?.downcast_ref()
    }
}

impl TlsStream {
    fn new(session: rustls::Connection, side: Side) -> Self {
        let inbox = Inbox { buffer: vec![0; INBOX_BYTES], begin: 0, end: 0, has_begun: false };
        TlsStream { side, session: Mutex::new(session), inbox: Mutex::new(inbox), outbox: Mutex::default() }
    }

    /// Reads received bytes, 0 at the end. `receive` is called when more is needed; its error is handed on.
    pub fn read(&self, into: &mut [u8], mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let mut inbox = lock(&self.inbox);
        loop {
            if let Some(bytes) = self.decrypt(&mut inbox, into)? {
                return Ok(bytes);
            }
            if self.receive(&mut inbox, &mut receive)? == 0 {
                return Ok(0);
            }
        }
    }

    /// Returns whether something can be read without receiving more; an error is something, too.
    pub fn has_received(&self) -> bool {
        let inbox = lock(&self.inbox);
        let read = lock(&self.session).process_new_packets();
        inbox.begin < inbox.end || read.map_or(true, |state| state.plaintext_bytes_to_read() > 0)
    }

    /// Continues the handshake until it is over. `send` and `receive` wait.
    pub fn shake_hands(
        &self,
        mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>,
        mut send: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        let mut inbox = lock(&self.inbox);
        loop {
            while !self.flush(&mut send)? {}
            if !lock(&self.session).is_handshaking() {
                return Ok(());
            }
            if self.receive(&mut inbox, &mut receive)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            while inbox.begin < inbox.end {
                if let Err(error) = self.process(&mut inbox) {
                    // The alert that says why; the peer may be gone.
                    let _ = self.flush(&mut send);
                    return Err(error);
                }
            }
        }
    }

    fn receive(
        &self,
        inbox: &mut Inbox,
        receive: &mut impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let bytes = receive(&mut inbox.buffer)?;
        (inbox.begin, inbox.end) = (0, bytes);
        if bytes > 0 && !std::mem::replace(&mut inbox.has_begun, true) && !FIRST_BYTES.contains(&inbox.buffer[0]) {
            return Err(self.refuse(match &self.side {
                Side::Client(ca) => format!(
                    "the node does not use TLS, and this process was given authorities for it ({}); start the node with \
                     --tls-cert and --tls-key, or unset {TLS_CA_VARIABLE}",
                    ca.display()
                ),
                Side::Node => format!(
                    "this node serves only clients that use TLS; set {TLS_CA_VARIABLE} to the file of the authority \
                     that signed its certificate"
                ),
            }));
        }
        Ok(bytes)
    }

    /// Returns what can be read without receiving more.
    fn decrypt(&self, inbox: &mut Inbox, into: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match lock(&self.session).reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read.map(Some),
            }
            if inbox.begin == inbox.end {
                return Ok(None);
            }
            self.process(inbox)?;
        }
    }

    fn process(&self, inbox: &mut Inbox) -> io::Result<()> {
        let mut session = lock(&self.session);
        let mut rest = &inbox.buffer[inbox.begin..inbox.end];
        let bytes = session.read_tls(&mut rest)?;
        inbox.begin += bytes;
        session.process_new_packets().map(drop).map_err(|error| self.failed(error))
    }

    /// Encrypts some of the pieces and sends; returns how much of them it took, 0 when `send` takes nothing for now
    /// (returns 0 itself).
    pub fn write(&self, pieces: &[IoSlice], mut send: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<usize> {
        if !self.flush(&mut send)? {
            return Ok(0);
        }
        let bytes = lock(&self.session).writer().write_vectored(pieces)?;
        self.flush(&mut send)?;
        Ok(bytes)
    }

    /// Sends what is encrypted; false when `send` took not all of it.
    pub fn flush(&self, mut send: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<bool> {
        let mut outbox = lock(&self.outbox);
        loop {
            if outbox.is_empty() {
                let mut session = lock(&self.session);
                while session.wants_write() {
                    session.write_tls(&mut *outbox)?;
                }
            }
            if outbox.is_empty() {
                return Ok(true);
            }
            match send(&outbox)? {
                0 => return Ok(false),
                bytes => drop(outbox.drain(..bytes)),
            }
        }
    }

    /// Returns whether encrypted bytes wait to be sent.
    pub fn wants_to_send(&self) -> bool {
        !lock(&self.outbox).is_empty() || lock(&self.session).wants_write()
    }

    /// Notifies the peer that nothing more comes; it goes out with the next flush.
    pub fn close(&self) {
        lock(&self.session).send_close_notify();
    }

    fn failed(&self, error: rustls::Error) -> io::Error {
        let rustls::Error::InvalidCertificate(of_certificate) = &error else {
            return io::Error::new(ErrorKind::InvalidData, format!("TLS: {error}"));
        };
        use CertificateError::*;
        let Side::Client(ca) = &self.side else { return self.refuse(format!("TLS: {error}")) };
        let ca = ca.display();
        self.refuse(match of_certificate {
            UnknownIssuer | BadSignature => format!("the node's certificate is not signed by an authority in {ca}"),
            NotValidForName | NotValidForNameContext { .. } => {
                format!("the node's certificate is for another name ({error})")
            }
            Expired | ExpiredContext { .. } => format!("the node's certificate has expired ({error})"),
            _ => format!("the node's certificate is refused: {}; authorities: {ca}", in_words(&error)),
        })
    }

    fn refuse(&self, why: String) -> io::Error {
        io::Error::new(ErrorKind::InvalidData, TlsRefusal(why))
    }
}

/// Explains certificates that openssl makes by default and rustls does not take, in words that say what to do.
fn in_words(error: &rustls::Error) -> String {
    let text = error.to_string();
    if text.contains("CaUsedAsEndEntity") {
        return "it is the authority itself; make one for the node that the authority signs".into();
    }
    if text.contains("UnsupportedCertVersion") {
        return "it has no extensions; make it anew with a subjectAltName".into();
    }
    text
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
