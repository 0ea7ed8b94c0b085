//! The mapping of one ring of a wire, from which published bytes are copied.
//!
//! Bytes that the target changes while they are copied are checked like all others.

use brownout_ring::RING_BYTES;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

/// A ring, mapped shared and read-only.
pub(crate) struct RingMap {
    base: NonNull<libc::c_void>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is only read.
unsafe impl Send for RingMap {}

impl RingMap {
    /// Maps the ring at `offset` of `wire`, whose size must already be sealed at the wire's size.
    pub(crate) fn map(wire: &File, offset: usize) -> io::Result<RingMap> {
        // SAFETY: the kernel chooses the address of the new mapping, so it replaces no other mapping.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                RING_BYTES,
                libc::PROT_READ,
                libc::MAP_SHARED,
                wire.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base).ok_or_else(io::Error::last_os_error)?;
        Ok(RingMap { base })
    }

    /// Fills `buffer` with the bytes of the ring from `start` on.
    pub(crate) fn copy_to(&self, buffer: &mut [u8], start: usize) {
        assert!(start + buffer.len() <= RING_BYTES);
        // SAFETY: the source is inside of the mapping, which cannot shrink, and the target of the copy is no part of it. A process may
        // change the source meanwhile: there is no reference to it, and any bytes that are copied are valid.
        unsafe {
            let from = self.base.as_ptr().cast::<u8>().add(start);
            libc::memcpy(buffer.as_mut_ptr().cast(), from.cast(), buffer.len());
        }
    }
}

impl Drop for RingMap {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` mapped.
        unsafe { libc::munmap(self.base.as_ptr(), RING_BYTES) };
    }
}
