//! The runtime's own memory: an arena of address space out of the target's way, and the allocator.
//!
//! Everything that the runtime maps lies in one region that targets neither ask for nor get by chance, so that the
//! kernel gives the target the same addresses as it would natively.

use crate::fatal;
use crate::lock::Lock;
use crate::sys;
use crate::sys::{is_err, linux};
use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use dlmalloc::Dlmalloc;

pub const PAGE: u64 = 4096;
pub const HUGE_PAGE: u64 = 2 << 20;

/// Where the arena starts. The loader itself is linked 64 GiB below (see `loader/layout.ld`).
const ARENA: u64 = 0x3110_0000_0000;
/// Where the heap starts; it reaches to the end of the arena.
const HEAP_START: u64 = 0x31f0_0000_0000;
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

/// Whether an address is among those of aliases.
pub fn is_alias(addr: u64) -> bool {
    (ARENA_END..ALIASES_END).contains(&addr)
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
    take_addresses(page_up(len) + PAGE)
}

fn take_addresses(len: u64) -> u64 {
    let addr = NEXT.fetch_add(len, Ordering::Relaxed);
    if addr + len > HEAP_START {
        fatal::fault(format_args!("the engine's address space is used up"));
    }
    addr
}

/// Maps zeroed private memory that the runtime may read and write.
pub fn map(len: u64) -> u64 {
    try_map(len).unwrap_or_else(|| no_memory(len))
}

fn no_memory(len: u64) -> ! {
    fatal::unsupported(format_args!(
        "the engine cannot map {len} bytes of memory; check for a limit on address space (ulimit -v)"
    ))
}

fn try_map(len: u64) -> Option<u64> {
    // Without a gap: what is mapped one after the other is one mapping for the kernel, which a fork copies at once.
    map_reserved(take_addresses(page_up(len)), len)
}

/// Maps zeroed private memory in a range that the caller has reserved.
fn map_reserved(addr: u64, len: u64) -> Option<u64> {
    let flags = linux::MAP_PRIVATE
        | linux::MAP_ANONYMOUS
        | linux::MAP_NORESERVE
        | linux::MAP_FIXED_NOREPLACE;
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

/// Maps zeroed private memory of the size of a huge page, on ordinary pages until [`collapse`].
pub fn map_huge() -> u64 {
    let addr = reserve(2 * HUGE_PAGE).next_multiple_of(HUGE_PAGE);
    map_reserved(addr, HUGE_PAGE).unwrap_or_else(|| no_memory(HUGE_PAGE))
}

/// Puts the memory of a huge page's size at `addr` on one, so that a fork copies one entry of the page tables.
pub fn collapse(addr: u64) {
    advise(addr, HUGE_PAGE, linux::MADV_HUGEPAGE);
    advise(addr, HUGE_PAGE, linux::MADV_COLLAPSE);
}

/// Puts the heap on huge pages, also what it takes from now on: those that a process and its children have written to were
/// split.
///
/// A fork copies the page tables of all that the engine has, and the entry of a huge page is cheaper than 512. A process that
/// does not fork often is faster without: clearing a huge page takes longer than the faults that it saves.
pub fn collapse_heap() {
    HEAP_IS_HUGE.store(true, Ordering::Relaxed);
    let end = HEAP_MAPPED.load(Ordering::Relaxed);
    (HEAP_START..end)
        .step_by(HUGE_PAGE as usize)
        .for_each(collapse);
}

/// Where the code and the constants of the runtime end, or 0 if they are not where the loader's layout puts them.
static TEXT_END: AtomicU64 = AtomicU64::new(0);

/// Notes where the code and the constants of the runtime end. They begin with the image, and nothing else is mapped in
/// their huge page (see `loader/layout.ld`).
///
/// # Safety
/// The caller is an executable with that layout.
pub unsafe fn set_text_end(end: u64) {
    TEXT_END.store(end, Ordering::Relaxed);
}

/// Moves the code and the constants of the runtime from the file that they are mapped from to a huge page. A forked
/// child would otherwise fault on each part of the file that it uses.
pub fn collapse_text() {
    let end = TEXT_END.swap(0, Ordering::Relaxed);
    if end == 0 {
        return;
    }
    let copy = map_huge();
    advise(copy, HUGE_PAGE, linux::MADV_HUGEPAGE);
    let len = (end - ENGINE_START) as usize;
    // SAFETY: the text is readable, and the copy, a fresh mapping, is not shorter: the loader's layout asserts that. When the
    // copy takes the place of the text, its bytes and the right to execute them are the same; a thread that fetches meanwhile
    // waits in the kernel. The rest of the huge page is not in use.
    unsafe {
        core::ptr::copy_nonoverlapping(ENGINE_START as *const u8, copy as *mut u8, len);
        let prot = linux::PROT_READ | linux::PROT_EXEC;
        if is_err(crate::sys!(linux::__NR_mprotect, copy, HUGE_PAGE, prot)) {
            unmap(copy, HUGE_PAGE);
            return;
        }
        let flags = linux::MREMAP_MAYMOVE | linux::MREMAP_FIXED;
        let raw = crate::sys!(
            linux::__NR_mremap,
            copy,
            HUGE_PAGE,
            HUGE_PAGE,
            flags,
            ENGINE_START
        );
        if is_err(raw) {
            unmap(copy, HUGE_PAGE);
        }
    }
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
/// The first address that the heap has not taken yet. Only the holder of the heap's lock changes these two.
static HEAP_NEXT: AtomicU64 = AtomicU64::new(HEAP_START);
/// Whether the heap is on huge pages. Only the holder of the translator's lock changes it.
static HEAP_IS_HUGE: AtomicBool = AtomicBool::new(false);
/// Where the mapped part of the heap ends.
static HEAP_MAPPED: AtomicU64 = AtomicU64::new(HEAP_START);

/// Takes the next `len` bytes of the heap's addresses, which are mapped as far as needed.
fn extend_heap(len: u64) -> Option<u64> {
    let (start, mapped) = (
        HEAP_NEXT.load(Ordering::Relaxed),
        HEAP_MAPPED.load(Ordering::Relaxed),
    );
    let end = start + len;
    if end > ARENA_END {
        return None;
    }
    if end > mapped {
        let missing = (end - mapped).next_multiple_of(HUGE_PAGE);
        map_reserved(mapped, missing)?;
        if HEAP_IS_HUGE.load(Ordering::Relaxed) {
            advise(mapped, missing, linux::MADV_HUGEPAGE);
        }
        HEAP_MAPPED.store(mapped + missing, Ordering::Relaxed);
    }
    HEAP_NEXT.store(end, Ordering::Relaxed);
    // A large piece may be used in part only. If this fails, each page is backed when it is first used.
    if len <= HEAP_PIECE as u64 {
        advise(start, len, linux::MADV_POPULATE_WRITE);
    }
    Some(start)
}

/// Lets children that are forked begin without a mapping of the runtime's: they do not need it, and copying it takes time.
pub fn leave_out_of_forks(addr: u64, len: u64) {
    advise(addr, page_up(len), linux::MADV_DONTFORK);
}

/// Gives the kernel advice on the runtime's own memory.
fn advise(addr: u64, len: u64, advice: u32) {
    // SAFETY: no kind of advice that is given here changes what the memory holds; failure only costs speed.
    unsafe { crate::sys!(linux::__NR_madvise, addr, len, advice) };
}

struct Arena;

// SAFETY: `alloc` returns fresh, zeroed, exclusive memory of the size it states, and the other operations
// decline.
unsafe impl dlmalloc::Allocator for Arena {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let size = size.next_multiple_of(HEAP_PIECE);
        match extend_heap(size as u64) {
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
    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
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

/// Whether memory was lent to a collection for its first elements by its owner, and is not part of the heap.
fn is_lent(ptr: *const u8) -> bool {
    !(HEAP_START..ARENA_END).contains(&(ptr as u64))
}

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
        if is_lent(ptr) {
            return;
        }
        // SAFETY: the caller passes what `alloc` returned.
        unsafe { self.inner.lock().free(ptr, layout.size(), layout.align()) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller passes a layout of non-zero size.
        unsafe { self.inner.lock().calloc(layout.size(), layout.align()) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_lent(ptr) {
            // SAFETY: the new memory holds as much as is copied.
            return unsafe {
                let new = self.inner.lock().malloc(size, layout.align());
                if !new.is_null() {
                    core::ptr::copy_nonoverlapping(ptr, new, layout.size().min(size));
                }
                new
            };
        }
        // SAFETY: the caller passes what `alloc` returned with this layout.
        unsafe {
            self.inner
                .lock()
                .realloc(ptr, layout.size(), layout.align(), size)
        }
    }
}
