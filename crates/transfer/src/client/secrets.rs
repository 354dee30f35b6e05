//! Which secret and authorities belong to which node: the process's own, and others for aliases that set them.

use std::collections::HashMap;
use std::sync::Mutex;

use format::Secret;

use crate::{Credentials, TlsClient};

pub(super) struct Secrets {
    default: Credentials,
    by_address: Mutex<HashMap<String, Credentials>>,
}

impl Secrets {
    pub fn new(default: Credentials) -> Self {
        Secrets { default, by_address: Mutex::default() }
    }

    /// Records the secret and authorities of an alias's nodes; where it sets none, the process's apply.
    pub fn learn(&self, nodes: &[String], secret: Option<Secret>, tls: Option<TlsClient>) {
        let Credentials { secret: default_secret, tls: default_tls } = self.default.clone();
        self.know(nodes, &Credentials { secret: secret.or(default_secret), tls: tls.or(default_tls) });
    }

    /// Records the credentials of these nodes.
    pub fn know(&self, nodes: &[String], credentials: &Credentials) {
        let mut known = self.by_address.lock().expect("inserting into a map does not panic");
        known.extend(nodes.iter().map(|node| (node.clone(), credentials.clone())));
    }

    pub fn of(&self, address: &str) -> Credentials {
        let known = self.by_address.lock().expect("looking into a map does not panic");
        known.get(address).unwrap_or(&self.default).clone()
    }
}
