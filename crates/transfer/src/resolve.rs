//! Addresses as users write them, and the sockets' addresses behind them.
//!
//! The system's resolver may take half a minute and cannot be interrupted: it runs in a thread of its own, and its
//! callers wait for a limited time.

use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use format::ErrorCode;

use crate::{Error, RESOLVE_TIMEOUT, Result};

/// Why a name has no address.
#[derive(Clone, Debug)]
pub(crate) enum ResolveError {
    /// Asking again may help.
    ForNow(String),
    /// The resolver knows that there is none, or the address cannot be one.
    ForGood(String),
}

impl ResolveError {
    pub fn why(&self) -> &str {
        let (ResolveError::ForNow(why) | ResolveError::ForGood(why)) = self;
        why
    }
}

pub(crate) type Resolved = std::result::Result<Vec<SocketAddr>, ResolveError>;

/// A resolution under way.
pub(crate) struct Resolution(Receiver<Resolved>);

impl Resolution {
    /// Begins a resolution; numeric addresses need no resolver. `done` is called when the answer is there.
    pub fn begin(address: &str, done: impl FnOnce() + Send + 'static) -> Self {
        let (answer, resolution) = mpsc::channel();
        let (host, port) = match parts(address) {
            Ok(parts) => parts,
            Err(error) => {
                let _ = answer.send(Err(ResolveError::ForGood(error.to_string())));
                return Resolution(resolution);
            }
        };
        if let Ok(known) = address.parse() {
            let _ = answer.send(Ok(vec![known]));
            return Resolution(resolution);
        }
        let host = host.to_owned();
        let resolve = move || {
            // The caller may have given up.
            let _ = answer.send(ask(&host, port));
            done();
        };
        // A thread that cannot be started drops the sender, which reads as a failure.
        let _ = crate::signals::without_signals(|| {
            std::thread::Builder::new().name("thalweg-resolve".into()).spawn(resolve)
        });
        Resolution(resolution)
    }

    /// Returns the answer, if it is there.
    pub fn poll(&self) -> Option<Resolved> {
        match self.0.try_recv() {
            Ok(resolved) => Some(resolved),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(no_thread())),
        }
    }

    pub fn wait(&self, timeout: Duration) -> Resolved {
        match self.0.recv_timeout(timeout) {
            Ok(resolved) => resolved,
            Err(RecvTimeoutError::Timeout) => Err(too_slow(timeout)),
            Err(RecvTimeoutError::Disconnected) => Err(no_thread()),
        }
    }
}

pub(crate) fn too_slow(timeout: Duration) -> ResolveError {
    ResolveError::ForNow(format!("its name was not resolved within {} s", timeout.as_secs_f32()))
}

fn no_thread() -> ResolveError {
    ResolveError::ForNow("no thread could be started to resolve its name".into())
}

/// How many addresses of one name are tried.
const MAX_CANDIDATES: usize = 3;

/// Returns the addresses to try for `host:port`, resolved within some seconds.
pub(crate) fn candidates(address: &str) -> Result<Vec<SocketAddr>> {
    check(address)?;
    let resolved = Resolution::begin(address, || {}).wait(RESOLVE_TIMEOUT);
    let unavailable =
        |error: ResolveError| Error::Unavailable { peer: address.to_owned(), why: error.why().to_owned() };
    let mut candidates = resolved.map_err(unavailable)?;
    candidates.truncate(MAX_CANDIDATES);
    Ok(candidates)
}

/// Refuses what is no `host:port`.
pub(crate) fn check(address: &str) -> Result<()> {
    parts(address).map(drop)
}

/// Splits an address into host and port; a host in brackets is one of IPv6.
fn parts(address: &str) -> Result<(&str, u16)> {
    let refuse = |why: &str| {
        Err(Error::Refused(ErrorCode::Address, format!("{address:?} is no address of a node: {why}; write HOST:PORT")))
    };
    let Some((host, port)) = address.rsplit_once(':') else { return refuse("it has no port") };
    let Ok(port) = port.parse() else { return refuse("its port is no number from 1 to 65535") };
    if port == 0 {
        return refuse("its port is no number from 1 to 65535");
    }
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    let odd = |byte: u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || matches!(byte, b'/' | b'@' | 0);
    if host.is_empty() || host.bytes().any(odd) || (host.contains(':') && !is_bracketed) {
        return refuse("it has no name or number of a host");
    }
    Ok((host.trim_start_matches('[').trim_end_matches(']'), port))
}

/// Calls `getaddrinfo` itself for its error number: the standard library does not distinguish an unknown name from a resolver
/// out of reach.
fn ask(host: &str, port: u16) -> Resolved {
    let Ok(name) = std::ffi::CString::new(host) else {
        return Err(ResolveError::ForGood("its name holds a zero".into()));
    };
    // SAFETY: an all-zero `addrinfo` is a valid set of hints.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_socktype = libc::SOCK_STREAM;
    let mut found = std::ptr::null_mut();
    // SAFETY: all pointers are valid for the call; the list is freed below.
    let code = unsafe { libc::getaddrinfo(name.as_ptr(), std::ptr::null(), &hints, &mut found) };
    if code != 0 {
        // SAFETY: `gai_strerror` returns a static string.
        let said = unsafe { std::ffi::CStr::from_ptr(libc::gai_strerror(code)) }.to_string_lossy().into_owned();
        return Err(match code {
            libc::EAI_NONAME | libc::EAI_NODATA => ResolveError::ForGood(format!("no host has this name ({said})")),
            _ => ResolveError::ForNow(format!("its name cannot be resolved ({said})")),
        });
    }
    let mut addresses = Vec::new();
    let mut next = found;
    while !next.is_null() {
        // SAFETY: the list is as the resolver made it, and each address as long as its family says.
        unsafe {
            let entry = &*next;
            match entry.ai_family {
                libc::AF_INET => {
                    let address = &*entry.ai_addr.cast::<libc::sockaddr_in>();
                    addresses.push((u32::from_be(address.sin_addr.s_addr).to_be_bytes(), port).into());
                }
                libc::AF_INET6 => {
                    let address = &*entry.ai_addr.cast::<libc::sockaddr_in6>();
                    let v6 =
                        std::net::SocketAddrV6::new(address.sin6_addr.s6_addr.into(), port, 0, address.sin6_scope_id);
                    addresses.push(v6.into());
                }
                _ => {}
            }
            next = entry.ai_next;
        }
    }
    // SAFETY: it came from `getaddrinfo` and is not used any more.
    unsafe { libc::freeaddrinfo(found) };
    if addresses.is_empty() { Err(ResolveError::ForGood("the name has no address".into())) } else { Ok(addresses) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_without_host_or_port_are_refused() {
        for good in ["h:1", "10.0.0.1:7420", "[::1]:7420", "a-b.c:65535"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in
            ["garbage", "", ":", "h:", ":7420", "h:x", "h:0", "h:65536", "h:-1", "a b:1", "::1:7420", "http://h:1"]
        {
            let refused = check(bad).unwrap_err();
            assert!(refused.to_string().contains("HOST:PORT"), "{bad}: {refused}");
        }
    }

    #[test]
    fn numbers_and_names_resolve_and_an_unknown_name_is_for_good() {
        let resolve = |address: &str| Resolution::begin(address, || {}).wait(Duration::from_secs(30));
        assert_eq!(resolve("127.0.0.1:9").unwrap(), ["127.0.0.1:9".parse().unwrap()]);
        assert_eq!(resolve("[::1]:9").unwrap(), ["[::1]:9".parse().unwrap()]);
        assert!(resolve("localhost:9").unwrap().iter().all(|address| address.ip().is_loopback()));
        assert!(matches!(resolve("garbage"), Err(ResolveError::ForGood(_))));
    }
}
