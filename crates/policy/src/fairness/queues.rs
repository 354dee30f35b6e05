//! The state common to all schedulers: the weighted tree of flows, their queues, the turns of an application's streams,
//! and the requests in service.
//!
//! Requests are cells of one vector, linked into the list of their stream (queued, then in service); nodes are cells
//! of another. Freed cells are used again, so nothing is allocated once the largest number has been seen.

use super::{Completion, Next, NodeId, Request, Settings, Time};

/// A request costs no more than this, so that sums of costs never overflow.
const MAX_BYTES: u64 = 1 << 36;
const MIN_QUANTUM_BYTES: u64 = 4 << 10;

/// No cell.
pub const NONE: u32 = u32::MAX;

/// A request, queued or in service.
#[derive(Clone, Copy)]
pub struct QueuedRequest {
    pub id: u64,
    pub cost_bytes: u64,
    /// `Time(u64::MAX)` when there is none.
    pub deadline: Time,
    /// When it was enqueued, then when it was started.
    pub since: Time,
    pub stream: u32,
    pub completion: Completion,
    next: u32,
    previous: u32,
}

/// Requests at the server.
#[derive(Clone, Copy, Debug, Default)]
struct InFlight {
    bytes: u64,
    count: u64,
}

impl QueuedRequest {
    pub fn started(&self) -> Next {
        Next::Start { flow: NodeId(self.stream), id: self.id }
    }
}

#[derive(Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: NONE, last: NONE };

struct Node {
    weight: u32,
    /// `NONE` at the top.
    parent: u32,
    children: u32,
    alive: bool,
    queued: List,
    in_service: List,
    /// As an application: the stream whose turn it is, in a ring of those with something queued.
    turn: u32,
    ring_next: u32,
    ring_previous: u32,
    /// As a stream: what it may still start in this turn; below 0 when the last turn overran.
    turn_left_bytes: i64,
    /// As an application: how many requests its streams have.
    queued_count: u32,
    in_service_count: u32,
    /// Whether it counts among its parent's children when the parent's share is divided.
    present: bool,
    present_children: u32,
    present_weight: u64,
    within_ns: u64,
}

/// The tree with its queues. Cells and nodes are named by their index.
pub struct Queues {
    nodes: Vec<Node>,
    free_nodes: Vec<u32>,
    cells: Vec<QueuedRequest>,
    free_cells: Vec<u32>,
    quantum_bytes: u64,
    /// By [`Completion`].
    in_flight: [InFlight; 3],
    /// Weights of the top nodes that are present.
    present_weight: u64,
    started_bytes: u64,
}

impl Queues {
    pub fn new(settings: &Settings) -> Self {
        Queues {
            nodes: Vec::new(),
            free_nodes: Vec::new(),
            cells: Vec::new(),
            free_cells: Vec::new(),
            quantum_bytes: settings.quantum_bytes.clamp(MIN_QUANTUM_BYTES, MAX_BYTES),
            in_flight: Default::default(),
            present_weight: 0,
            started_bytes: 0,
        }
    }

    pub fn add(&mut self, parent: Option<NodeId>, weight: u32) -> NodeId {
        let parent = parent.filter(|parent| self.knows(*parent)).map_or(NONE, |parent| parent.0);
        let node = Node {
            weight: weight.max(1),
            parent,
            children: 0,
            alive: true,
            queued: EMPTY,
            in_service: EMPTY,
            turn: NONE,
            ring_next: NONE,
            ring_previous: NONE,
            turn_left_bytes: 0,
            queued_count: 0,
            in_service_count: 0,
            present: false,
            present_children: 0,
            present_weight: 0,
            within_ns: u64::MAX,
        };
        if parent != NONE {
            self.nodes[parent as usize].children += 1;
        }
        match self.free_nodes.pop() {
            Some(index) => {
                self.nodes[index as usize] = node;
                NodeId(index)
            }
            None => {
                self.nodes.push(node);
                NodeId(self.nodes.len() as u32 - 1)
            }
        }
    }

    pub fn knows(&self, flow: NodeId) -> bool {
        self.nodes.get(flow.0 as usize).is_some_and(|node| node.alive)
    }

    pub fn set_weight(&mut self, flow: NodeId, weight: u32) {
        if !self.knows(flow) {
            return;
        }
        let Node { weight: old, present, parent, .. } = self.nodes[flow.0 as usize];
        self.nodes[flow.0 as usize].weight = weight.max(1);
        if present {
            let sum = match parent {
                NONE => &mut self.present_weight,
                parent => &mut self.nodes[parent as usize].present_weight,
            };
            *sum = *sum - u64::from(old) + u64::from(weight.max(1));
        }
    }

    pub fn set_deadline(&mut self, flow: NodeId, within_ns: Option<u64>) {
        if self.knows(flow) {
            self.nodes[flow.0 as usize].within_ns = within_ns.unwrap_or(u64::MAX);
        }
    }

    /// Forgets a node that has no children and no requests.
    pub fn remove(&mut self, flow: NodeId) -> bool {
        let Some(node) = self.nodes.get(flow.0 as usize).filter(|node| node.alive) else { return false };
        if node.children > 0 || node.queued.first != NONE || node.in_service.first != NONE {
            return false;
        }
        let parent = node.parent;
        self.set_present(flow.0, false);
        self.nodes[flow.0 as usize].alive = false;
        if parent != NONE {
            self.nodes[parent as usize].children -= 1;
        }
        self.free_nodes.push(flow.0);
        true
    }

    /// Returns the node whose share pays for requests of this flow.
    pub fn application(&self, flow: u32) -> u32 {
        match self.nodes[flow as usize].parent {
            NONE => flow,
            parent => parent,
        }
    }

    /// Returns the requests of this application that wait.
    pub fn queued(&self, application: u32) -> u32 {
        self.nodes[application as usize].queued_count
    }

    /// Returns the requests of this application at the server.
    pub fn in_service(&self, application: u32) -> u32 {
        self.nodes[application as usize].in_service_count
    }

    /// Costs of all requests ever started.
    pub fn started_bytes(&self) -> u64 {
        self.started_bytes
    }

    /// Returns the part of the server that its weight entitles an application to, among those present.
    pub fn entitled_part(&self, application: u32) -> f64 {
        1.0 / (self.virtual_per_byte(application) * self.present_weight.max(1) as f64)
    }

    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight.iter().map(|in_flight| in_flight.bytes).sum()
    }

    pub fn in_flight_count(&self) -> u64 {
        self.in_flight.iter().map(|in_flight| in_flight.count).sum()
    }

    /// Returns the bytes of those in flight that are complete so.
    pub fn outstanding_bytes(&self, completion: Completion) -> u64 {
        self.in_flight[completion as usize].bytes
    }

    /// Whether a request fits below the limit of those that are complete as it is; one always does when there is none.
    pub fn admits(&self, request: &QueuedRequest, limit_bytes: u64) -> bool {
        let InFlight { bytes, count } = self.in_flight[request.completion as usize];
        count == 0 || bytes.saturating_add(request.cost_bytes) <= limit_bytes
    }

    /// Appends a request to its stream; answers its cell. The flow must be known.
    pub fn enqueue(&mut self, flow: NodeId, request: Request, now: Time) -> u32 {
        let cell = QueuedRequest {
            id: request.id,
            cost_bytes: request.cost_bytes.clamp(1, MAX_BYTES),
            deadline: request.deadline.unwrap_or_else(|| self.default_deadline(flow.0, now)),
            since: now,
            stream: flow.0,
            completion: request.completion,
            next: NONE,
            previous: NONE,
        };
        let index = self.free_cells.pop().unwrap_or_else(|| {
            self.cells.push(cell);
            self.cells.len() as u32 - 1
        });
        self.cells[index as usize] = cell;
        if self.nodes[flow.0 as usize].queued.first == NONE {
            self.join_ring(flow.0);
        }
        append(&mut self.cells, &mut self.nodes[flow.0 as usize].queued, index);
        let application = self.application(flow.0);
        self.nodes[application as usize].queued_count += 1;
        index
    }

    /// Returns when a request without a deadline of its own is due.
    fn default_deadline(&self, mut node: u32, now: Time) -> Time {
        while node != NONE {
            let Node { within_ns, parent, .. } = self.nodes[node as usize];
            if within_ns != u64::MAX {
                return now.after(within_ns);
            }
            node = parent;
        }
        Time(u64::MAX)
    }

    /// Returns the queued cell of this id.
    pub fn find_queued(&self, flow: NodeId, id: u64) -> Option<u32> {
        self.find(self.nodes.get(flow.0 as usize)?.queued, id)
    }

    fn find(&self, list: List, id: u64) -> Option<u32> {
        let mut at = list.first;
        while at != NONE && self.cells[at as usize].id != id {
            at = self.cells[at as usize].next;
        }
        (at != NONE).then_some(at)
    }

    /// Takes a queued request out for good.
    pub fn withdraw(&mut self, cell: u32) {
        self.leave_queue(cell);
        self.free_cells.push(cell);
    }

    /// Returns the application's next request: the oldest of the stream whose turn it is.
    pub fn head(&self, application: u32) -> Option<(u32, QueuedRequest)> {
        let stream = self.nodes[application as usize].turn;
        if stream == NONE {
            return None;
        }
        let cell = self.nodes[stream as usize].queued.first;
        Some((cell, self.cells[cell as usize]))
    }

    pub fn cell(&self, cell: u32) -> QueuedRequest {
        self.cells[cell as usize]
    }

    /// Moves a queued request into service and charges its stream's turn.
    pub fn start(&mut self, cell: u32, now: Time) -> QueuedRequest {
        let QueuedRequest { stream, cost_bytes, completion, .. } = self.cells[cell as usize];
        let application = self.application(stream);
        self.nodes[stream as usize].turn_left_bytes -= cost_bytes as i64;
        self.leave_queue(cell);
        self.end_turn_if_spent(application);
        self.cells[cell as usize].since = now;
        append(&mut self.cells, &mut self.nodes[stream as usize].in_service, cell);
        self.nodes[application as usize].in_service_count += 1;
        let in_flight = &mut self.in_flight[completion as usize];
        in_flight.bytes += cost_bytes;
        in_flight.count += 1;
        self.started_bytes += cost_bytes;
        self.cells[cell as usize]
    }

    /// Takes a request out of service. `None` when no such request is in service.
    pub fn complete(&mut self, flow: NodeId, id: u64) -> Option<QueuedRequest> {
        let list = self.nodes.get(flow.0 as usize)?.in_service;
        let index = self.find(list, id)?;
        let cell = self.cells[index as usize];
        unlink(&mut self.cells, &mut self.nodes[flow.0 as usize].in_service, index);
        self.free_cells.push(index);
        let application = self.application(flow.0);
        self.nodes[application as usize].in_service_count -= 1;
        let in_flight = &mut self.in_flight[cell.completion as usize];
        in_flight.bytes -= cell.cost_bytes;
        in_flight.count -= 1;
        Some(cell)
    }

    /// Says whether an application takes part in the division of its group's share.
    pub fn set_present(&mut self, mut node: u32, present: bool) {
        while self.nodes[node as usize].present != present {
            self.nodes[node as usize].present = present;
            let Node { parent, weight, .. } = self.nodes[node as usize];
            if parent == NONE {
                let sum = self.present_weight;
                self.present_weight = if present { sum + u64::from(weight) } else { sum - u64::from(weight) };
                return;
            }
            let above = &mut self.nodes[parent as usize];
            if present {
                above.present_children += 1;
                above.present_weight += u64::from(weight);
            } else {
                above.present_children -= 1;
                above.present_weight -= u64::from(weight);
                if above.present_children > 0 {
                    return;
                }
            }
            node = parent;
        }
    }

    /// Returns the virtual time that a byte costs an application: 1 / weight at the top; below a group, the group's
    /// cost times (weight of the children present / own weight), so that the present ones divide the whole of it.
    pub fn virtual_per_byte(&self, application: u32) -> f64 {
        let mut node = &self.nodes[application as usize];
        let mut per_byte = 1.0 / f64::from(node.weight);
        while node.parent != NONE {
            let own = u64::from(node.weight);
            node = &self.nodes[node.parent as usize];
            per_byte *= node.present_weight.max(own) as f64 / f64::from(node.weight);
        }
        per_byte
    }

    fn leave_queue(&mut self, cell: u32) {
        let stream = self.cells[cell as usize].stream;
        unlink(&mut self.cells, &mut self.nodes[stream as usize].queued, cell);
        let application = self.application(stream);
        self.nodes[application as usize].queued_count -= 1;
        if self.nodes[stream as usize].queued.first == NONE {
            self.leave_ring(stream, application);
        }
    }

    /// A stream with something to start goes to the end of its application's ring: just before the one whose turn
    /// it is.
    fn join_ring(&mut self, stream: u32) {
        let application = self.application(stream);
        let turn = self.nodes[application as usize].turn;
        if turn == NONE {
            self.nodes[application as usize].turn = stream;
            self.nodes[stream as usize].ring_next = stream;
            self.nodes[stream as usize].ring_previous = stream;
        } else {
            let last = self.nodes[turn as usize].ring_previous;
            self.nodes[last as usize].ring_next = stream;
            self.nodes[stream as usize].ring_previous = last;
            self.nodes[stream as usize].ring_next = turn;
            self.nodes[turn as usize].ring_previous = stream;
        }
        self.refill_turn(stream);
    }

    /// Surplus round robin: the overrun of a turn is taken from the next one; its rest is lost.
    fn refill_turn(&mut self, stream: u32) {
        let node = &mut self.nodes[stream as usize];
        let quantum = self.quantum_bytes.saturating_mul(u64::from(node.weight)).min(1 << 40) as i64;
        node.turn_left_bytes = node.turn_left_bytes.min(0) + quantum;
    }

    fn leave_ring(&mut self, stream: u32, application: u32) {
        let Node { ring_next, ring_previous, .. } = self.nodes[stream as usize];
        if ring_next == stream {
            self.nodes[application as usize].turn = NONE;
            return;
        }
        self.nodes[ring_previous as usize].ring_next = ring_next;
        self.nodes[ring_next as usize].ring_previous = ring_previous;
        if self.nodes[application as usize].turn == stream {
            self.nodes[application as usize].turn = ring_next;
        }
    }

    fn end_turn_if_spent(&mut self, application: u32) {
        let mut turn = self.nodes[application as usize].turn;
        while turn != NONE && self.nodes[turn as usize].turn_left_bytes <= 0 {
            self.refill_turn(turn);
            turn = self.nodes[turn as usize].ring_next;
            self.nodes[application as usize].turn = turn;
        }
    }
}

fn append(cells: &mut [QueuedRequest], list: &mut List, index: u32) {
    cells[index as usize].next = NONE;
    cells[index as usize].previous = list.last;
    match list.last {
        NONE => list.first = index,
        last => cells[last as usize].next = index,
    }
    list.last = index;
}

fn unlink(cells: &mut [QueuedRequest], list: &mut List, index: u32) {
    let QueuedRequest { next, previous, .. } = cells[index as usize];
    match previous {
        NONE => list.first = next,
        previous => cells[previous as usize].next = next,
    }
    match next {
        NONE => list.last = previous,
        next => cells[next as usize].previous = previous,
    }
}
