//! The runtime's own memory: an arena of address space out of the target's way, and the allocator.
//!
//! Everything that the runtime maps lies in one region that targets neither ask for nor get by chance, so that the
//! kernel gives the target the same addresses as it would natively.

use crate::fatal;
use crate::lock::Lock;
use crate::sys;
use crate::sys::{is_err, linux};
use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicU64, Ordering};
use dlmalloc::Dlmalloc;

pub const PAGE: u64 = 4096;

/// Where the arena starts. The loader itself is linked 64 GiB below (see `loader/layout.ld`).
const ARENA: u64 = 0x3110_0000_0000;
const ARENA_END: u64 = 0x3200_0000_0000;
/// Aliases of the target's mappings lie between the arena and here.
const ALIASES_END: u64 = 0x5000_0000_0000;
const ENGINE_START: u64 = 0x3100_0000_0000;

static NEXT: AtomicU64 = AtomicU64::new(ARENA);
static NEXT_ALIAS: AtomicU64 = AtomicU64::new(ARENA_END);

/// Whether a range touches the runtime's image or arena.
pub fn is_engine(start: u64, end: u64) -> bool {
    start < ARENA_END && end > ENGINE_START
}

/// Finds an address for an alias of `len` bytes: calls `try_map` with addresses that are probably free until it
/// succeeds, or fails for another reason than that the range is in use.
pub fn place_alias(len: u64, mut try_map: impl FnMut(u64) -> sys::Raw) -> sys::Raw {
    let len = page_up(len) + PAGE;
    let mut raw = sys::err(sys::errno::ENOMEM);
    // Address space that was released is used again only after one full round.
    for _ in 0..64 {
        let mut addr = NEXT_ALIAS.fetch_add(len, Ordering::Relaxed);
        if addr + len > ALIASES_END {
            NEXT_ALIAS.store(ARENA_END + len, Ordering::Relaxed);
            addr = ARENA_END;
        }
        raw = try_map(addr);
        if raw != sys::err(sys::errno::EEXIST) {
            return raw;
        }
    }
    raw
}

pub fn page_down(value: u64) -> u64 {
    value & !(PAGE - 1)
}

pub fn page_up(value: u64) -> u64 {
    value.wrapping_add(PAGE - 1) & !(PAGE - 1)
}

/// Reserves address space of the arena and leaves a gap page behind it.
pub fn reserve(len: u64) -> u64 {
    let len = page_up(len) + PAGE;
    let addr = NEXT.fetch_add(len, Ordering::Relaxed);
    if addr + len > ARENA_END {
        fatal::fault(format_args!("the engine's address space is used up"));
    }
    addr
}

/// Maps zeroed private memory that the runtime may read and write.
pub fn map(len: u64) -> u64 {
    match try_map(len, Backing::Later) {
        Some(addr) => addr,
        None => fatal::unsupported(format_args!(
            "the engine cannot map {len} bytes of memory; check for a limit on address space (ulimit -v)"
        )),
    }
}

/// When the kernel finds pages for a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backing {
    /// Each when it is first used.
    Later,
    /// All at once, which is cheaper if most will be used.
    Now,
}

fn try_map(len: u64, backing: Backing) -> Option<u64> {
    let addr = reserve(len);
    let backing = match backing {
        Backing::Later => linux::MAP_NORESERVE,
        Backing::Now => linux::MAP_POPULATE,
    };
    let flags = linux::MAP_PRIVATE | linux::MAP_ANONYMOUS | linux::MAP_FIXED_NOREPLACE | backing;
    // SAFETY: the range was just reserved for this caller alone and NOREPLACE leaves others' alone.
    let raw = unsafe {
        sys::mmap(
            addr,
            page_up(len),
            linux::PROT_READ | linux::PROT_WRITE,
            flags,
            -1,
            0,
        )
    };
    (!is_err(raw)).then_some(raw)
}

/// Unmaps memory from [`map`].
///
/// # Safety
/// Nothing may refer to the range any more.
pub unsafe fn unmap(addr: u64, len: u64) {
    // SAFETY: the caller's promise.
    unsafe { sys::munmap(addr, page_up(len)) };
}

/// The least by which the heap grows. Starting a target fills several of these.
const HEAP_PIECE: usize = 128 << 10;

struct Arena;

// SAFETY: `alloc` returns fresh, zeroed, exclusive mappings of the size it states, and the optional
// operations decline.
unsafe impl dlmalloc::Allocator for Arena {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let backing = if size <= HEAP_PIECE {
            Backing::Now
        } else {
            Backing::Later
        };
        let size = size.max(HEAP_PIECE);
        match try_map(size as u64, backing) {
            Some(addr) => (addr as *mut u8, size, 0),
            None => (core::ptr::null_mut(), 0, 0),
        }
    }
    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        core::ptr::null_mut()
    }
    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }
    fn free(&self, ptr: *mut u8, size: usize) -> bool {
        // SAFETY: dlmalloc frees only what it got from `alloc` and no longer uses.
        unsafe { unmap(ptr as u64, size as u64) };
        true
    }
    fn can_release_part(&self, _: u32) -> bool {
        false
    }
    fn allocates_zeros(&self) -> bool {
        true
    }
    fn page_size(&self) -> usize {
        PAGE as usize
    }
}

/// The allocator; the loader installs it as the global one.
pub struct Heap {
    inner: Lock<Dlmalloc<Arena>>,
}

pub static HEAP: Heap = Heap {
    inner: Lock::new(Dlmalloc::new_with_allocator(Arena)),
};

impl Heap {
    /// Runs `fork` while no other thread is inside the allocator.
    pub fn quiesced<R>(&self, fork: impl FnOnce() -> R) -> R {
        let guard = self.inner.lock();
        let result = fork();
        drop(guard);
        result
    }
}

// SAFETY: dlmalloc under a lock meets the contract of GlobalAlloc.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller passes a layout of non-zero size.
        unsafe { self.inner.lock().malloc(layout.size(), layout.align()) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller passes what `alloc` returned.
        unsafe { self.inner.lock().free(ptr, layout.size(), layout.align()) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller passes a layout of non-zero size.
        unsafe { self.inner.lock().calloc(layout.size(), layout.align()) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller passes what `alloc` returned with this layout.
        unsafe {
            self.inner
                .lock()
                .realloc(ptr, layout.size(), layout.align(), size)
        }
    }
}
