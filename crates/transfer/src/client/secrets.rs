//! Which secret belongs to which node: one for the process, and others for aliases that name their own.

use std::collections::HashMap;
use std::sync::Mutex;

use format::Secret;

pub(super) struct Secrets {
    default: Option<Secret>,
    by_address: Mutex<HashMap<String, Secret>>,
}

impl Secrets {
    pub fn new(default: Option<Secret>) -> Self {
        Secrets { default, by_address: Mutex::default() }
    }

    /// These nodes have this secret.
    pub fn learn(&self, nodes: &[String], secret: &Secret) {
        let mut known = self.by_address.lock().expect("inserting into a map does not panic");
        known.extend(nodes.iter().map(|node| (node.clone(), secret.clone())));
    }

    pub fn of(&self, address: &str) -> Option<Secret> {
        let known = self.by_address.lock().expect("looking into a map does not panic");
        known.get(address).or(self.default.as_ref()).cloned()
    }
}
