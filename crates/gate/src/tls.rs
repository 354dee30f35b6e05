//! TLS at either end of a connection, and none where the file names none.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::config::{Identity, Listen, UpstreamTls};
use crate::error::{Error, Result};
use crate::regular_file::read_regular;

/// How a listener speaks to its clients and to its server.
#[derive(Clone, Default)]
pub(crate) struct TlsEnds {
    pub client: Option<TlsAcceptor>,
    pub server: Option<(TlsConnector, ServerName<'static>)>,
}

impl TlsEnds {
    pub fn load(listen: &Listen) -> Result<TlsEnds> {
        let client = listen.tls.as_ref().map(acceptor).transpose()?;
        let server = listen.upstream_tls.as_ref().map(connector).transpose()?;
        Ok(TlsEnds { client, server })
    }
}

fn acceptor(identity: &Identity) -> Result<TlsAcceptor> {
    let Identity { certificate, key } = identity;
    let wrong = |path: &std::path::Path, why: String| Error::Certificate { path: path.to_owned(), why };
    let chain = read_certificates(certificate)?;
    let text = read_regular(key).map_err(|error| wrong(key, format!("no private key: {error}")))?;
    let read = PrivateKeyDer::from_pem_slice(text.as_bytes());
    let key_der = read.map_err(|error| wrong(key, format!("no private key: {error}")))?;
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_no_client_auth())
        .and_then(|builder| builder.with_single_cert(chain, key_der));
    let config = config.map_err(|error| wrong(certificate, format!("does not go with {}: {error}", key.display())))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn connector(tls: &UpstreamTls) -> Result<(TlsConnector, ServerName<'static>)> {
    let wrong = |why: String| Error::Certificate { path: tls.ca.clone(), why };
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(&tls.ca)? {
        roots.add(certificate).map_err(|error| wrong(format!("no usable authority: {error}")))?;
    }
    let name = ServerName::try_from(tls.name.clone());
    let name = name.map_err(|_| wrong(format!("upstream_tls.name: `{}` is no host's name", tls.name)))?;
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok((TlsConnector::from(Arc::new(config)), name))
}

fn read_certificates(path: &std::path::Path) -> Result<Vec<CertificateDer<'static>>> {
    let wrong = |why: String| Error::Certificate { path: path.to_owned(), why };
    let text = read_regular(path).map_err(|error| wrong(format!("no PEM certificates: {error}")))?;
    let found = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<std::result::Result<Vec<_>, _>>();
    let found = found.map_err(|error| wrong(format!("no PEM certificates: {error}")))?;
    if found.is_empty() { Err(wrong("holds no certificate".to_owned())) } else { Ok(found) }
}
