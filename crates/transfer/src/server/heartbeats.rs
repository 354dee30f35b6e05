//! Heartbeats: every few seconds each client is sent one, so that it can distinguish a node that holds it back, or works long
//! for it, from one that is gone. The same thread ends connections whose frames come too slowly.
//!
//! The thread waits for no client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::ALIVE_INTERVAL;
use crate::message::Reply;
use crate::server::closing::Closing;
use crate::service::{ClientSender, Service};

/// How soon the thread notices that the server has stopped.
const TICK: Duration = Duration::from_millis(200);

/// The welcomed clients, by their connections.
#[derive(Default)]
pub(super) struct Heartbeats {
    clients: Mutex<HashMap<u64, ClientSender>>,
}

impl Heartbeats {
    pub fn add(&self, number: u64, outbox: ClientSender) {
        self.clients().insert(number, outbox);
    }

    pub fn remove(&self, number: u64) {
        self.clients().remove(&number);
    }

    /// Runs until the server stops, and after that as long as it has clients.
    pub fn run(&self, service: &Arc<dyn Service>, closing: &Closing, give_up_late: impl Fn()) {
        let mut next = Instant::now() + ALIVE_INTERVAL;
        while !closing.is_stopping() || !self.clients().is_empty() {
            thread::sleep(TICK);
            give_up_late();
            if Instant::now() < next {
                continue;
            }
            next = Instant::now() + ALIVE_INTERVAL;
            let alive = Reply::Alive { progress: service.progress() };
            let clients: Vec<ClientSender> = self.clients().values().cloned().collect();
            clients.iter().for_each(|outbox| outbox.heartbeats(&alive));
        }
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<u64, ClientSender>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
