//! The request queues of one connection, one for each application it speaks for.
//!
//! A client machine speaks for many users over one connection, so the application is found call by call, by the rules
//! of the moment; the facts of the connection itself (address, export, volume) are the same for all its calls.

use std::net::IpAddr;
use std::rc::Rc;

use crate::applications::Application;
use crate::config::Facts;
use crate::flows::Flow;
use crate::listener::ListenerContext;
use crate::upstream_scheduler::RequestQueue;

use super::call::Caller;

pub struct RequestQueues {
    listener: Rc<ListenerContext>,
    client: IpAddr,
    volume: Option<String>,
    open: Vec<Queue>,
}

/// Where calls of one application wait.
#[derive(Clone)]
pub struct Queue {
    pub queue: Rc<RequestQueue>,
    pub flow: Rc<Flow>,
}

impl RequestQueues {
    pub fn new(listener: Rc<ListenerContext>, client: IpAddr) -> Self {
        RequestQueues { listener, client, volume: None, open: Vec::new() }
    }

    /// Notes that the client has attached to this volume; its later calls belong there.
    pub fn attached(&mut self, volume: String) {
        self.volume = Some(volume);
    }

    /// Returns the application of a call, by the rules of the moment.
    pub fn application(&self, caller: Caller) -> Rc<Application> {
        let facts = Facts {
            client: Some(self.client),
            uid: caller.uid,
            gid: caller.gid,
            export: self.listener.listen.export.as_deref(),
            volume: self.volume.as_deref(),
            ..Facts::default()
        };
        self.listener.gate.applications.of(&facts)
    }

    pub fn of(&mut self, caller: Caller) -> Queue {
        let application = self.application(caller);
        if let Some(open) = self.open.iter().find(|open| Rc::ptr_eq(open.queue.application(), &application)) {
            return open.clone();
        }
        let upstream = &self.listener.upstream;
        let queue = upstream.queue(&application);
        let queue = Queue { flow: queue.flow().clone(), queue };
        self.open.push(queue.clone());
        queue
    }
}
