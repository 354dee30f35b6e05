//! How much of a long upload the server has read: its kernel's acknowledgement says only that the bytes are there.
//!
//! The other end's window shows it (tcpi_snd_wnd): its right edge moves on only as an application reads, and before any
//! upload, when all was read, the window is at its widest. Each acknowledgement brings the window of its moment; later
//! reads are mostly not announced before the next bytes come. So an upload of which much lies unread is given little
//! pieces at growing intervals, and no more until they show that it is read. On kernels without the field (before 5.5)
//! everything seems to be read.

use std::cell::Cell;

use crate::socket::SLICE;
use crate::upstream_scheduler::Admission;
use crate::wire::Wire;

/// The limit on an upload's unread bytes at the server: a kernel there may take tens of mebibytes, at the speed of
/// memory, which are then beyond any scheduling.
const MAX_UNREAD_BYTES: u64 = 16 * SLICE as u64;
/// A window moves a little as buffers are filled better, and is announced in steps, though nothing was read.
const MIN_READ_BYTES: u64 = SLICE as u64 * 3 / 2;
/// The size and the interval of the probes that bring a new window.
pub(crate) const PROBE_BYTES: usize = SLICE / 4;
const MIN_PROBE_NS: u64 = 1_000_000;
const MAX_PROBE_NS: u64 = 32_000_000;

pub(crate) struct ServerReads {
    pub admission: Admission,
    /// The window's right edge, as the server's kernel announced it last, and its greatest width.
    right_edge: Cell<u64>,
    widest: Cell<u64>,
    unread_bytes: Cell<u64>,
    probe_ns: Cell<u64>,
    has_begun: Cell<bool>,
}

impl ServerReads {
    pub fn new(admission: Admission, server: &Wire) -> Self {
        let (acknowledged, window) = server.acknowledged_and_window();
        ServerReads {
            admission,
            right_edge: Cell::new(acknowledged + window),
            widest: Cell::new(window),
            unread_bytes: Cell::new(0),
            probe_ns: Cell::new(MIN_PROBE_NS),
            has_begun: Cell::new(false),
        }
    }

    /// Notes that something has been acknowledged.
    pub fn look(&self, server: &Wire) {
        let (acknowledged, window) = server.acknowledged_and_window();
        self.widest.set(self.widest.get().max(window));
        self.unread_bytes.set(self.widest.get() - window);
        let right_edge = acknowledged + window;
        let read_bytes = right_edge.saturating_sub(self.right_edge.get());
        if read_bytes >= MIN_READ_BYTES {
            self.right_edge.set(right_edge);
            self.probe_ns.set(MIN_PROBE_NS);
            self.has_begun.set(true);
            self.admission.read(read_bytes);
        } else {
            self.admission.not_read();
        }
    }

    pub fn has_much_unread(&self) -> bool {
        self.unread_bytes.get() >= MAX_UNREAD_BYTES
    }

    /// Whether the server has begun to read the upload.
    pub fn has_begun(&self) -> bool {
        self.has_begun.get()
    }

    /// Whether the server reads others first, for long.
    pub fn is_passed_over(&self) -> bool {
        self.has_much_unread() && self.admission.is_passed_over()
    }

    /// Notes that the server may read this upload from now on.
    pub fn expect_news(&self) {
        self.probe_ns.set(MIN_PROBE_NS);
    }

    /// Returns how long to wait before the next little piece.
    pub fn next_probe_ns(&self) -> u64 {
        let ns = self.probe_ns.get();
        self.probe_ns.set((2 * ns).min(MAX_PROBE_NS));
        ns
    }
}
