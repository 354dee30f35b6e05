//! A TUN device: a network interface whose packets a program reads and writes. No offloads are asked for, so that every
//! packet is one of the interface's MTU, as on a wire.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

const DEVICE: &str = "/dev/net/tun";
const NAME_BYTES: usize = 16;
/// IP packets without a header before them.
const TUN_WITHOUT_HEADER: u16 = 0x1001;
/// TUNSETIFF, which is declared with an int and takes an `ifreq`.
const SET_INTERFACE: Opcode = opcode::write::<std::ffi::c_int>(b'T', 202);

/// As the kernel's `ifreq`.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; NAME_BYTES],
    flags: u16,
    rest: [u8; 22],
}

pub struct Tun {
    fd: OwnedFd,
}

impl Tun {
    /// Makes the interface in this process's network namespace; it stays with the descriptor when it is moved to another.
    pub fn create(name: &str) -> Result<Self> {
        ensure!(name.len() < NAME_BYTES, "{name} is too long for an interface's name");
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd =
            rustix::fs::open(DEVICE, flags, Mode::empty()).with_context(|| format!("{DEVICE} cannot be opened"))?;
        let mut request = InterfaceRequest { name: [0; NAME_BYTES], flags: TUN_WITHOUT_HEADER, rest: [0; 22] };
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        // SAFETY: the kernel reads and writes no more than an ifreq, which `InterfaceRequest` is in size and layout.
        let made = unsafe { ioctl(&fd, Setter::<SET_INTERFACE, InterfaceRequest>::new(request)) };
        made.with_context(|| format!("the interface {name} cannot be made"))?;
        Ok(Tun { fd })
    }

    /// Reads a packet into the buffer; none when there is none now.
    pub fn read(&self, buffer: &mut Vec<u8>, max_bytes: usize) -> io::Result<bool> {
        buffer.resize(max_bytes, 0);
        match rustix::io::read(&self.fd, &mut buffer[..]) {
            Ok(bytes) => buffer.truncate(bytes),
            // An interface that is down, or under way to another namespace.
            Err(Errno::AGAIN | Errno::INTR | Errno::BADFD | Errno::IO) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Gives the kernel a packet that arrives; false when it takes none.
    pub fn write(&self, packet: &[u8]) -> bool {
        rustix::io::write(&self.fd, packet).is_ok()
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
