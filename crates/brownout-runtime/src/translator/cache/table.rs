//! Tables from target addresses to cache addresses, read by generated code without locks.
//!
//! The branch table covers addresses below 2 GiB directly: eight bytes each, the low four for jumps and
//! returns, the high four for calls, as offsets from the miss routines. The hash table serves
//! addresses above, and branches that have gone to such.

use crate::fatal;
use crate::memory;
use crate::memory::{HUGE_PAGE, PAGE, page_down};
use crate::sys;
use crate::sys::{is_err, linux};
use crate::translator::cache::{CACHE, FAR, JUMP_MISS};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Where the branch table starts: a displacement that generated code can encode.
pub const BASE: u64 = 0x7ff0_0000;
const BYTES: u64 = FAR * 8;
/// The table is made writable in pieces of this size.
pub const PIECE: u64 = 1 << 20;
// SAFETY: a section of zeroed memory, which the loader's layout puts behind what is written often.
#[unsafe(link_section = ".bss.tables")]
static WRITABLE: [AtomicU64; (BYTES / PIECE / 64) as usize] =
    [const { AtomicU64::new(0) }; (BYTES / PIECE / 64) as usize];

pub const HASH_SLOTS: usize = 1 << 16;
static HASH: AtomicU64 = AtomicU64::new(0);

/// One slot of the hash table.
#[repr(C)]
struct HashSlot {
    pc: AtomicU64,
    at: AtomicU64,
}

/// Maps both tables. The branch table starts out read-only and all zero, which costs neither memory
/// nor commit charge.
pub fn create() {
    let flags = linux::MAP_PRIVATE
        | linux::MAP_ANONYMOUS
        | linux::MAP_NORESERVE
        | linux::MAP_FIXED_NOREPLACE;
    // SAFETY: NOREPLACE leaves anything that is already there alone.
    let raw = unsafe { sys::mmap(BASE, BYTES, linux::PROT_READ, flags, -1, 0) };
    if is_err(raw) {
        fatal::unsupported(format_args!(
            "the engine cannot reserve 16 GiB of address space at {BASE:#x} ({}); check for a limit on address space (ulimit -v)",
            sys::Errno::of(raw)
        ));
    }
    // SAFETY: advice on memory that was just mapped: huge pages would defeat the table's sparseness.
    unsafe { crate::sys!(linux::__NR_madvise, BASE, BYTES, linux::MADV_NOHUGEPAGE) };
    HASH.store(memory::map_huge(), Ordering::Relaxed);
}

const _: () = assert!(HASH_SLOTS * size_of::<HashSlot>() <= HUGE_PAGE as usize);

/// Where the branch table ends.
pub fn end() -> u64 {
    BASE + BYTES
}

/// Set when the target has taken the table's addresses for itself.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Whether the target has taken the table's addresses for itself.
pub fn is_given_up() -> bool {
    GIVEN_UP.load(Ordering::Relaxed)
}

/// Whether a range touches the branch table.
pub fn overlaps(start: u64, end: u64) -> bool {
    !GIVEN_UP.load(Ordering::Relaxed) && start < BASE + BYTES && end > BASE
}

/// Gives a part of the table to the target. No code that uses the table may be reachable.
pub fn give_up(start: u64, end: u64) {
    GIVEN_UP.store(true, Ordering::Relaxed);
    let (start, end) = (start.max(BASE), end.min(BASE + BYTES));
    // SAFETY: nothing uses the table any more.
    unsafe { sys::munmap(start, end - start) };
}

/// Address of the hash table, for contexts.
pub fn hash_table() -> u64 {
    HASH.load(Ordering::Relaxed)
}

/// Whether the piece of the table that holds an address of it was made writable.
pub fn is_writable(addr: u64) -> bool {
    let piece = (addr - BASE) / PIECE;
    WRITABLE[(piece / 64) as usize].load(Ordering::Relaxed) >> (piece % 64) & 1 != 0
}

/// Makes the piece of the table writable that holds an address of it.
pub fn make_writable(addr: u64) {
    if is_writable(addr) {
        return;
    }
    let piece = (addr - BASE) / PIECE;
    // SAFETY: the piece is part of the table.
    unsafe {
        crate::sys!(
            linux::__NR_mprotect,
            BASE + piece * PIECE,
            PIECE,
            linux::PROT_READ | linux::PROT_WRITE
        )
    };
    WRITABLE[(piece / 64) as usize].fetch_or(1 << (piece % 64), Ordering::Relaxed);
}

fn slot(pc: u64) -> &'static [AtomicU32; 2] {
    let addr = BASE + pc * 8;
    make_writable(addr);
    // SAFETY: `pc` is below FAR, so the slot is in the table, which is never unmapped in this state.
    unsafe { &*(addr as *const [AtomicU32; 2]) }
}

pub fn set_jump(pc: u64, at: u64) {
    if pc < FAR && !GIVEN_UP.load(Ordering::Relaxed) {
        slot(pc)[0].store((at - CACHE - JUMP_MISS) as u32, Ordering::Release);
    }
}

/// Whether the branch table leads jumps to `pc` somewhere; also if there is no table for it.
pub fn has_jump(pc: u64) -> bool {
    has_entry(pc, 0)
}

/// The same for calls.
pub fn has_call(pc: u64) -> bool {
    has_entry(pc, 1)
}

fn has_entry(pc: u64, of: usize) -> bool {
    pc >= FAR
        || GIVEN_UP.load(Ordering::Relaxed)
        || is_writable(BASE + pc * 8) && slot(pc)[of].load(Ordering::Relaxed) != 0
}

pub fn set_call(pc: u64, at: u64) {
    if pc < FAR && !GIVEN_UP.load(Ordering::Relaxed) {
        slot(pc)[1].store((at - CACHE) as u32, Ordering::Release);
    }
}

fn hash_slot(pc: u64) -> &'static HashSlot {
    let hash = ((pc as u32 >> 2) ^ pc as u32) as usize & (HASH_SLOTS - 1);
    // SAFETY: the table has HASH_SLOTS slots and is never unmapped.
    unsafe { &*((hash_table() as *const HashSlot).add(hash)) }
}

pub fn set_hash(pc: u64, at: u64) {
    let slot = hash_slot(pc);
    // A reader that compares between these stores misses and comes to the dispatcher.
    slot.pc.store(u64::MAX, Ordering::Release);
    slot.at.store(at, Ordering::Release);
    slot.pc.store(pc, Ordering::Release);
}

/// Whether no other address has taken the slot of `pc` in the hash table.
pub fn has_free_hash_slot(pc: u64) -> bool {
    matches!(hash_slot(pc).pc.load(Ordering::Relaxed), 0 | u64::MAX)
}

/// Removes `pc` from both tables.
pub fn clear(pc: u64) {
    if pc < FAR && !GIVEN_UP.load(Ordering::Relaxed) && is_writable(BASE + pc * 8) {
        slot(pc)[0].store(0, Ordering::Release);
        slot(pc)[1].store(0, Ordering::Release);
    }
    let slot = hash_slot(pc);
    if slot.pc.load(Ordering::Relaxed) == pc {
        slot.pc.store(u64::MAX, Ordering::Release);
    }
}

/// Removes every entry of the branch table that leads into `range`. Walks only what was ever written.
pub fn clear_targets(range: &core::ops::Range<u64>) {
    if GIVEN_UP.load(Ordering::Relaxed) {
        return;
    }
    for (word, bits) in WRITABLE.iter().enumerate() {
        let mut bits = bits.load(Ordering::Relaxed);
        while bits != 0 {
            let piece = word as u64 * 64 + u64::from(bits.trailing_zeros());
            bits &= bits - 1;
            clear_piece(BASE + piece * PIECE, range);
        }
    }
}

fn clear_piece(start: u64, range: &core::ops::Range<u64>) {
    let mut resident = [0u8; (PIECE / PAGE) as usize];
    // SAFETY: the vector has one byte per page of the piece.
    unsafe {
        crate::sys!(
            linux::__NR_mincore,
            page_down(start),
            PIECE,
            resident.as_mut_ptr()
        )
    };
    for (page, _) in resident.iter().enumerate().filter(|(_, r)| **r & 1 != 0) {
        let words = (start + page as u64 * PAGE) as *const [AtomicU32; 2];
        for index in 0..PAGE as usize / 8 {
            // SAFETY: within a writable page of the table.
            let slot = unsafe { &*words.add(index) };
            for (word, miss) in slot.iter().zip([CACHE + JUMP_MISS, CACHE]) {
                let value = word.load(Ordering::Relaxed);
                if value != 0 && range.contains(&(u64::from(value) + miss)) {
                    word.store(0, Ordering::Release);
                }
            }
        }
    }
}
