//! Pipes, sockets and counters that all copies of a process share: what one copy has put there, the next must not find.
//!
//! A server whose signal handler writes to a pipe would end each further execution at once, and connections that an execution has not
//! accepted would be those of the next one.

use super::stations::DESCRIPTORS;
use crate::sys::{self, Raw, is_err, linux};
use alloc::vec::Vec;

/// What one copy can have put into one of them, in reads.
const READS: u32 = 4096;

/// As `poll` has it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Polled {
    fd: i32,
    events: u16,
    happened: u16,
}

/// Descriptors from which nothing could be read when the process came to its station.
pub struct SharedDescriptors(Vec<Polled>);

impl SharedDescriptors {
    pub fn now() -> Self {
        let open = |fd: i32| Polled {
            fd,
            events: linux::POLLIN as u16,
            happened: 0,
        };
        let mut all: Vec<Polled> = (0..DESCRIPTORS).map(open).collect();
        poll(&mut all);
        // Those that are not open, and files, can be read at once or have an error.
        all.retain(|one| one.happened == 0);
        Self(all)
    }

    /// Takes out what can be read now.
    pub fn empty(&self) {
        let mut all = self.0.clone();
        if all.is_empty() || poll(&mut all) == 0 {
            return;
        }
        let filled = all.iter().filter(|one| one.happened & one.events != 0);
        filled.for_each(|one| empty(one.fd));
    }
}

fn empty(fd: i32) {
    let mut buffer = [0u8; 4096];
    for _ in 0..READS {
        let mut one = [Polled {
            fd,
            events: linux::POLLIN as u16,
            happened: 0,
        }];
        if poll(&mut one) == 0 || one[0].happened & one[0].events == 0 {
            return;
        }
        // SAFETY: accepts a connection, which only a listening socket has.
        let accepted = unsafe { crate::sys!(linux::__NR_accept4, fd, 0, 0, linux::O_CLOEXEC) };
        if !is_err(accepted) {
            sys::close(accepted as i32);
            continue;
        }
        // SAFETY: the kernel writes into the buffer. There is something to read.
        let got = unsafe { crate::sys!(linux::__NR_read, fd, buffer.as_mut_ptr(), buffer.len()) };
        if is_err(got) || got == 0 {
            return;
        }
    }
}

fn poll(polled: &mut [Polled]) -> Raw {
    let none = [0u64; 2];
    // SAFETY: the kernel writes to the list, which has this many entries.
    let raw = unsafe {
        crate::sys!(
            linux::__NR_ppoll,
            polled.as_mut_ptr(),
            polled.len(),
            none.as_ptr(),
            0,
            8
        )
    };
    if is_err(raw) { 0 } else { raw }
}
