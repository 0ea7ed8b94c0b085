//! Memory that the kernel shares with the target for a ring, mapped by the engine a second time.
//!
//! The kernel and the target may change it at any time: it is read and written by single volatile or atomic
//! accesses, at offsets that are checked.

use crate::plain_data::PlainData;
use crate::sys::{self, is_err, linux};
use core::sync::atomic::AtomicU32;

/// One mapping of a ring.
pub struct RingMemory {
    start: u64,
    len: u64,
}

impl RingMemory {
    /// Maps `len` bytes of a ring, at one of the kernel's offsets.
    pub fn map(fd: i32, len: u64, offset: u32) -> Option<RingMemory> {
        let flags = linux::MAP_SHARED | linux::MAP_POPULATE;
        let prot = linux::PROT_READ | linux::PROT_WRITE;
        // SAFETY: maps where nothing is mapped. The kernel chooses the address of a ring.
        let raw = unsafe { sys::mmap(0, len, prot, flags, fd, offset.into()) };
        (!is_err(raw)).then_some(RingMemory { start: raw, len })
    }

    /// Address of a value of type `T` at an offset.
    fn at<T>(&self, offset: u64) -> *mut T {
        let end = offset.saturating_add(size_of::<T>() as u64);
        assert!(end <= self.len && offset.is_multiple_of(align_of::<T>() as u64));
        (self.start + offset) as *mut T
    }

    /// A word that is shared with the kernel.
    pub fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: `at` has checked the bounds and the alignment; mappings start at a page and last as long as
        // `self`.
        unsafe { &*self.at::<AtomicU32>(offset) }
    }

    pub fn read<T: PlainData>(&self, offset: u64) -> T {
        // SAFETY: as above, and any bytes are a valid `T`.
        unsafe { self.at::<T>(offset).read_volatile() }
    }

    pub fn write(&self, offset: u64, value: u64) {
        // SAFETY: as above; Rust holds no reference to what is written.
        unsafe { self.at::<u64>(offset).write_volatile(value) };
    }
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` for this value alone.
        unsafe { sys::munmap(self.start, self.len) };
    }
}
