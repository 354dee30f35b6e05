//! Whether standard input and output are there at all.
//!
//! Rust's runtime opens /dev/null in place of those that are closed, and takes one that is open the wrong way round for
//! an empty or an endless one: a file would be stored empty, or a listing lost, without an error. So they are checked
//! before the runtime begins.

use std::sync::atomic::{AtomicU8, Ordering};

static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Called by the loader, before the runtime.
extern "C" fn note_closed() {
    for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
        if mode_of(stream).is_none() {
            CLOSED.fetch_or(1 << stream, Ordering::Relaxed);
        }
    }
}

// SAFETY: the function only asks the kernel and writes to an atomic, which needs no runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_CLOSED: extern "C" fn() = note_closed;

/// Returns how it is open (`O_RDONLY` …); none when it is closed.
fn mode_of(stream: libc::c_int) -> Option<libc::c_int> {
    // SAFETY: it only asks about a number.
    let flags = unsafe { libc::fcntl(stream, libc::F_GETFL) };
    (flags >= 0).then_some(flags & libc::O_ACCMODE)
}

fn is_open(stream: libc::c_int, wrong_mode: libc::c_int) -> bool {
    let was_closed = CLOSED.load(Ordering::Relaxed) & (1 << stream) != 0;
    !was_closed && mode_of(stream).is_some_and(|mode| mode != wrong_mode)
}

pub fn can_read_input() -> bool {
    is_open(libc::STDIN_FILENO, libc::O_WRONLY)
}

pub fn can_write_output() -> bool {
    is_open(libc::STDOUT_FILENO, libc::O_RDONLY)
}
