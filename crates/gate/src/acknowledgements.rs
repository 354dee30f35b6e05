//! Reports when the other end's kernel has what was written: our kernel announces it on the socket's error queue, which
//! saves polling while a slow server reads.
//!
//! The mechanism is transmit timestamps (SOF_TIMESTAMPING_TX_ACK, Documentation/networking/timestamping.rst): for each
//! write, when its last byte is acknowledged. Only the notification is used, not the time. Writes that share a segment
//! are reported together, and a notification that finds the receive buffer full is lost: waiters poll after a while.

use std::io;
use std::os::fd::AsRawFd;

use tokio::net::TcpStream;

use crate::socket::set_option;

/// As many as are taken by one system call.
const NEWS: usize = 16;

/// Enables or disables the kernel's reports for this connection's later writes.
pub(crate) fn ask_for(stream: &TcpStream, is_wanted: bool) -> io::Result<()> {
    // Without OPT_TSONLY what was written would come back with the time of its arrival.
    let requested = if is_wanted { libc::SOF_TIMESTAMPING_TX_ACK } else { 0 };
    let kind = requested | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    set_option(stream, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, kind)
}

/// Reads the pending reports, which would otherwise fill the buffer.
pub(crate) fn take(stream: &TcpStream) {
    // SAFETY: a header of zeros is one that has room for nothing, which is all that is wanted of the news.
    let mut headers: [libc::mmsghdr; NEWS] = unsafe { std::mem::zeroed() };
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    loop {
        let (all, no_timeout) = (NEWS as libc::c_uint, std::ptr::null_mut());
        // SAFETY: `all` is the number of headers, and they outlive the call.
        let taken = unsafe { libc::recvmmsg(stream.as_raw_fd(), headers.as_mut_ptr(), all, flags as _, no_timeout) };
        if taken < NEWS as libc::c_int {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Duration;

    use crate::wire::Wire;

    const BYTES: usize = 4 << 20;

    /// Nothing but the news wakes this test: it would wait in vain for those that do not come.
    #[test]
    fn a_slow_reader_is_waited_for_without_asking() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let reader = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let (mut got, mut piece) = (0, [0; 64 << 10]);
            while got < BYTES {
                std::thread::sleep(Duration::from_millis(1));
                got += stream.read(&mut piece).expect("more");
            }
        });
        let written = async {
            let wire = Wire::with_acknowledgements(tokio::net::TcpStream::connect(address).await.expect("a listener"));
            assert!(wire.reports_acknowledged());
            wire.report_acknowledgements(true);
            wire.write_all(&vec![7; BYTES]).await.expect("it takes all");
            while wire.unacknowledged() > 0 {
                wire.acknowledges().await;
            }
        };
        let in_time = async { tokio::time::timeout(Duration::from_secs(20), written).await };
        runtime.block_on(in_time).expect("news of all that was acknowledged");
        reader.join().expect("it got all");
    }
}
