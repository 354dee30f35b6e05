//! Whose calls they are: the streams of one connection, one for each application it speaks for.
//!
//! A client machine speaks for many users over one connection, so the application is told call by call, by the rules as
//! they are then; what is known of the connection itself (address, export, volume) is the same for all its calls.

use std::net::IpAddr;
use std::rc::Rc;

use crate::applications::Application;
use crate::config::Facts;
use crate::listener::Door;
use crate::shares::Stream;

use super::call::Caller;
use super::flows::Flow;

pub struct Streams {
    door: Rc<Door>,
    client: IpAddr,
    volume: Option<String>,
    open: Vec<Queue>,
}

/// Where calls of one application wait.
#[derive(Clone)]
pub struct Queue {
    pub stream: Rc<Stream>,
    pub flow: Rc<Flow>,
}

impl Streams {
    pub fn new(door: Rc<Door>, client: IpAddr) -> Self {
        Streams { door, client, volume: None, open: Vec::new() }
    }

    /// The client has attached to this volume; what it calls from now on belongs there.
    pub fn attached(&mut self, volume: String) {
        self.volume = Some(volume);
    }

    /// Whose call it is, by the rules as they are now.
    pub fn application(&self, caller: Caller) -> Rc<Application> {
        let facts = Facts {
            client: Some(self.client),
            uid: caller.uid,
            gid: caller.gid,
            export: self.door.listen.export.as_deref(),
            volume: self.volume.as_deref(),
            ..Facts::default()
        };
        self.door.gate.applications.of(&facts)
    }

    pub fn of(&mut self, caller: Caller) -> Queue {
        let application = self.application(caller);
        if let Some(open) = self.open.iter().find(|open| Rc::ptr_eq(open.stream.application(), &application)) {
            return open.clone();
        }
        let shares = &self.door.shares;
        let queue = Queue { stream: shares.stream(&application), flow: shares.flows.of(&application) };
        self.open.push(queue.clone());
        queue
    }
}
