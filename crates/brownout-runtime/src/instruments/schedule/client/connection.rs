//! Sockets of the client: where the target listens, and a connection to it.
//!
//! The kernel of the machine connects both ends. Over TCP, it may do so a little later: the input is not taken for consumed before it is
//! known that it is there, so that the threads of the target see it in each run.

use super::super::switch::are_ready;
use super::super::turns::WaitedDescriptor;
use crate::sys::{self, Raw, is_err, linux, net};
use alloc::vec::Vec;
use brownout_ring::fuzz::PathText;
use core::sync::atomic::Ordering;

/// Descriptors among which the target's listening sockets are looked for.
const DESCRIPTORS: i32 = 256;
/// The connection has a descriptor that is not lower than this, so that those of the target have the numbers that they have natively.
const FIRST: u64 = 700;
/// How often it is looked whether the other end has got everything, and the time between two looks, in nanoseconds.
const LOOKS: u32 = 1000;
const POLL_INTERVAL: u64 = 50_000;
/// The last state of a TCP connection, as `TCP_INFO` has them, in which the other end may not know yet that nothing more is sent:
/// `FIN_WAIT1`.
const LAST_UNSENT: u8 = 4;

/// An address as the kernel has it.
#[derive(Clone, Copy)]
struct Address {
    bytes: [u8; 128],
    len: u32,
}

/// A socket at which the target accepts connections.
#[derive(Clone, Copy)]
pub struct Listener {
    fd: i32,
    address: Address,
    kind: i32,
}

impl Listener {
    /// The target's listening socket, the one with the lowest descriptor if there are several.
    pub fn find() -> Option<Listener> {
        (0..DESCRIPTORS).find_map(Self::at)
    }

    fn at(fd: i32) -> Option<Listener> {
        if option(fd, net::SO_ACCEPTCONN)? == 0 {
            return None;
        }
        let kind = option(fd, net::SO_TYPE)?;
        let mut address = Address {
            bytes: [0; 128],
            len: 128,
        };
        // SAFETY: the kernel writes at most as much as the length says.
        let raw = unsafe {
            crate::sys!(
                linux::__NR_getsockname,
                fd,
                address.bytes.as_mut_ptr(),
                &raw mut address.len
            )
        };
        (!is_err(raw) && address.len <= 128).then_some(Listener { fd, address, kind })
    }

    /// Connects, in order to send a part of the input.
    pub fn connect(&self, part: (usize, usize)) -> Option<Connection> {
        let family = u16::from_ne_bytes([self.address.bytes[0], self.address.bytes[1]]);
        let kind = self.kind as u32 | linux::O_CLOEXEC | linux::O_NONBLOCK;
        // SAFETY: makes a socket.
        let raw = unsafe { crate::sys!(linux::__NR_socket, family, kind, 0) };
        if is_err(raw) {
            return None;
        }
        let mut connection = Connection {
            fd: raw as i32,
            rest: part,
            is_tcp: family != net::AF_UNIX as u16,
            is_open: true,
            looks: LOOKS,
        };
        connection.move_out_of_the_way();
        // SAFETY: the kernel reads the address.
        let raw = unsafe {
            crate::sys!(
                linux::__NR_connect,
                connection.fd,
                self.address.bytes.as_ptr(),
                self.address.len
            )
        };
        if is_err(raw) && raw != sys::err(sys::errno::EINPROGRESS) {
            return None;
        }
        // Over TCP, the connection is there once it can be accepted.
        looks(|| is_readable(self.fd));
        Some(connection)
    }
}

/// A connection to the target. It is closed when this is dropped.
pub struct Connection {
    fd: i32,
    /// The bytes of the input that were not sent yet.
    rest: (usize, usize),
    is_tcp: bool,
    is_open: bool,
    /// How often it is looked whether everything has arrived.
    looks: u32,
}

impl Connection {
    fn move_out_of_the_way(&mut self) {
        // SAFETY: makes another descriptor for the socket.
        let raw = unsafe { crate::sys!(linux::__NR_fcntl, self.fd, linux::F_DUPFD_CLOEXEC, FIRST) };
        if !is_err(raw) {
            sys::close(self.fd);
            self.fd = raw as i32;
        }
    }

    /// Sends as much as the target takes, and closes the sending end after the last byte. Returns whether it has done anything.
    pub fn send(&mut self, input: &[u8]) -> bool {
        if !self.is_open {
            return false;
        }
        let before = self.rest.0;
        let (start, end) = self.rest;
        let mut bytes = input.get(start..end).unwrap_or_default();
        while !bytes.is_empty() {
            let flags = net::MSG_NOSIGNAL | net::MSG_DONTWAIT;
            // SAFETY: the kernel reads the bytes.
            let raw = unsafe {
                crate::sys!(
                    linux::__NR_sendto,
                    self.fd,
                    bytes.as_ptr(),
                    bytes.len(),
                    flags,
                    0,
                    0
                )
            };
            match raw {
                _ if !is_err(raw) => bytes = &bytes[(raw as usize).min(bytes.len())..],
                _ if raw == sys::err(sys::errno::EAGAIN) => break,
                // The target has closed the connection.
                _ => {
                    self.is_open = false;
                    return true;
                }
            }
        }
        self.rest.0 = end - bytes.len();
        if bytes.is_empty() {
            self.is_open = false;
            // SAFETY: ends sending.
            unsafe { crate::sys!(linux::__NR_shutdown, self.fd, net::SHUT_WR) };
        }
        !self.is_open || self.rest.0 > before
    }

    /// Whether everything that was sent may still be on its way. Over TCP, the kernel says so until the target reads it, or a little
    /// longer.
    pub fn may_be_on_its_way(&mut self) -> bool {
        if !self.is_tcp || self.looks == 0 || is_sent(self.fd) {
            return false;
        }
        self.looks -= 1;
        sys::sleep(POLL_INTERVAL);
        true
    }

    /// Reads what the target has answered, so that it can answer more. Returns whether there was anything.
    pub fn forget_answers(&mut self) -> bool {
        let mut buffer = [0u8; 4096];
        let mut has_any = false;
        loop {
            // SAFETY: the kernel writes into the buffer.
            let raw = unsafe {
                crate::sys!(
                    linux::__NR_recvfrom,
                    self.fd,
                    buffer.as_mut_ptr(),
                    buffer.len(),
                    net::MSG_DONTWAIT,
                    0,
                    0
                )
            };
            if is_err(raw) || raw == 0 {
                return has_any;
            }
            has_any = true;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        sys::close(self.fd);
    }
}

/// Looks until something is the case, not for ever.
fn looks(mut is_so: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if is_so() {
            return;
        }
        sys::sleep(POLL_INTERVAL);
    }
}

/// Whether the other end of a TCP connection has got everything, and knows that it is everything.
fn is_sent(fd: i32) -> bool {
    let mut info = [0u8; 8];
    match get_option(fd, net::IPPROTO_TCP as u32, net::TCP_INFO, &mut info) {
        // A closed connection has no state of its own any more.
        Some(_) => info[0] > LAST_UNSENT,
        None => true,
    }
}

fn is_readable(fd: i32) -> bool {
    are_ready(&[WaitedDescriptor {
        fd,
        events: linux::POLLIN as u16,
        happened: 0,
    }])
}

/// An option of a socket; `None` if the descriptor is not one.
fn option(fd: i32, name: u32) -> Option<i32> {
    let mut value = [0u8; 4];
    get_option(fd, net::SOL_SOCKET, name, &mut value)?;
    Some(i32::from_ne_bytes(value))
}

fn get_option(fd: i32, level: u32, name: u32, value: &mut [u8]) -> Option<usize> {
    let mut len = value.len() as u32;
    // SAFETY: the kernel writes at most as much as the length says.
    let raw: Raw = unsafe {
        crate::sys!(
            linux::__NR_getsockopt,
            fd,
            level,
            name,
            value.as_mut_ptr(),
            &raw mut len
        )
    };
    (!is_err(raw)).then_some(len as usize)
}

/// The content of a file; empty if it cannot be read.
pub fn read_file(path: &PathText) -> Vec<u8> {
    let len = path.len.load(Ordering::Relaxed) as usize;
    let bytes = path.bytes.iter().take(len);
    let mut text: Vec<u8> = bytes.map(|byte| byte.load(Ordering::Relaxed)).collect();
    text.push(0);
    let mut content = Vec::new();
    let Ok(path) = core::ffi::CStr::from_bytes_with_nul(&text) else {
        return content;
    };
    let raw = sys::open(path, linux::O_RDONLY | linux::O_CLOEXEC);
    if is_err(raw) {
        return content;
    }
    let mut buffer = [0u8; 4096];
    loop {
        let got = sys::pread(raw as i32, &mut buffer, content.len() as u64);
        if is_err(got) || got == 0 {
            break;
        }
        content.extend_from_slice(&buffer[..got as usize]);
    }
    sys::close(raw as i32);
    content
}
