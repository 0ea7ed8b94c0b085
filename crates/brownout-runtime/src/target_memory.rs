//! Reads and writes of the target's memory that return an error for bad pointers.
//!
//! The runtime's own memory counts as a bad pointer for writes, so that no address that the target passes can make
//! the runtime overwrite itself. Reads are not restricted: they can do no harm.

use crate::arch::translator::guarded;
use crate::memory::{self, PAGE, page_down};
use crate::plain_data::PlainData;
use crate::sys::{is_err, linux};
use crate::translator::cache;
use alloc::vec::Vec;
use core::mem::MaybeUninit;

/// A pointer of the target was bad: what the kernel calls `EFAULT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// Reads a plain value.
pub fn read<T: PlainData>(addr: u64) -> Result<T, Fault> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: `value` is a local variable of this size.
    let left = unsafe { guarded::copy(value.as_mut_ptr() as u64, addr, size_of::<T>() as u64) };
    if left != 0 {
        return Err(Fault);
    }
    // SAFETY: all bytes were written, and any bytes are a valid `T`.
    Ok(unsafe { value.assume_init() })
}

/// Writes a plain value, unless some of it would lie in the runtime's own memory.
pub fn write<T: PlainData>(addr: u64, value: &T) -> Result<(), Fault> {
    write_bytes(addr, value.as_bytes())
}

/// Writes bytes, unless some of them would lie in the runtime's own memory.
pub fn write_bytes(addr: u64, bytes: &[u8]) -> Result<(), Fault> {
    let end = addr.checked_add(bytes.len() as u64).ok_or(Fault)?;
    let is_own = memory::is_engine(addr, end)
        || cache::overlaps(addr, end)
        || cache::table_overlaps(addr, end);
    if is_own {
        return Err(Fault);
    }
    // SAFETY: the range was just checked to hold nothing of the runtime's image and arena, where its variables, heap
    // and stacks are, and nothing of the code cache and the branch table. The other mappings of the process are the
    // target's, and aliases of them.
    let left = unsafe { guarded::copy(addr, bytes.as_ptr() as u64, bytes.len() as u64) };
    if left == 0 { Ok(()) } else { Err(Fault) }
}

/// Reads into `buffer`; the number of bytes that could be read.
pub fn read_into(addr: u64, buffer: &mut [u8]) -> usize {
    // SAFETY: the buffer is the caller's to write.
    let left = unsafe { guarded::copy(buffer.as_mut_ptr() as u64, addr, buffer.len() as u64) };
    buffer.len() - left as usize
}

/// Whether there is anything at an address, accessible or not.
pub fn is_mapped(addr: u64) -> bool {
    let mut resident = 0u8;
    // SAFETY: asks about one page; the answer is one byte.
    let answer = unsafe {
        crate::sys!(
            linux::__NR_mincore,
            page_down(addr),
            PAGE,
            &raw mut resident
        )
    };
    !is_err(answer)
}

/// Reads a C string of at most `limit` bytes, with its NUL.
pub fn read_cstr(addr: u64, limit: usize) -> Result<Vec<u8>, Fault> {
    let mut text = Vec::new();
    let mut at = addr;
    loop {
        // Up to the end of the page at a time: the next page may not be there.
        let mut piece = [0u8; 256];
        let room = (4096 - (at & 4095) as usize).min(piece.len());
        let got = read_into(at, &mut piece[..room]);
        if got == 0 {
            return Err(Fault);
        }
        if let Some(end) = piece[..got].iter().position(|&b| b == 0) {
            text.extend_from_slice(&piece[..=end]);
            return Ok(text);
        }
        text.extend_from_slice(&piece[..got]);
        if text.len() > limit {
            return Err(Fault);
        }
        at += got as u64;
    }
}

/// Reads a NULL-terminated array of pointers.
pub fn read_pointers(addr: u64) -> Result<Vec<u64>, Fault> {
    let mut pointers = Vec::new();
    if addr == 0 {
        return Ok(pointers);
    }
    loop {
        let pointer: u64 = read(addr + 8 * pointers.len() as u64)?;
        if pointer == 0 {
            return Ok(pointers);
        }
        pointers.push(pointer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translator::cache::{CACHE, CACHE_END};

    #[test]
    fn the_runtime_does_not_overwrite_itself() {
        assert_eq!(write(CACHE, &0u64), Err(Fault));
        assert_eq!(write(CACHE - 4, &0u64), Err(Fault));
        assert_eq!(write_bytes(CACHE_END - 1, &[0]), Err(Fault));
        assert_eq!(write(memory::reserve(PAGE), &0u64), Err(Fault));
        assert_eq!(write(u64::MAX, &0u64), Err(Fault));
    }

    #[test]
    fn other_memory_is_written() {
        let mut word = 1u64;
        assert_eq!(write(&raw mut word as u64, &2u64), Ok(()));
        assert_eq!(word, 2);
    }
}
