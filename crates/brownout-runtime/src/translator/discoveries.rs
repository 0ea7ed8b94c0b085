//! What the processes of one fork tree have found to be code, so that each block is translated once and not in every child.
//!
//! A forked child has its own copy of the cache, and what it translates there is lost with it: of a hundred children that
//! take the same way, each would translate it again. So processes that were forked note in shared memory which branch
//! targets they had to find, and a process that is about to fork first does the same in its own cache. Notes are hints:
//! a process translates only what is code in its own memory, and translating more than is executed changes nothing
//! that the target can see. Code that can be written is left out, because translating it guards its page.
//!
//! What it can miss: branch targets after the first [`CAPACITY`].

use crate::sys;
use crate::sys::{is_err, linux};
use crate::translator::space;
use crate::translator::translate::Translator;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// What was found about an address of code: how branches reach it, mostly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// By a direct jump, by falling through, or after a system call or signal.
    Direct,
    /// By a direct call.
    DirectCall,
    /// By an indirect jump or a return.
    Indirect,
    /// By an indirect call.
    IndirectCall,
    /// It is an indirect branch that has had targets beyond the branch table.
    FarBranch,
    /// The instrument with this number has to observe the instruction there.
    Observed(u32),
}

impl Discovery {
    /// The number of a discovery in a note; none has 0.
    fn number(self) -> u64 {
        match self {
            Discovery::Direct => 1,
            Discovery::DirectCall => 2,
            Discovery::Indirect => 3,
            Discovery::IndirectCall => 4,
            Discovery::FarBranch => 5,
            Discovery::Observed(instrument) => 6 + u64::from(instrument),
        }
    }

    fn numbered(number: u64) -> Option<Discovery> {
        Some(match number {
            0 => return None,
            1 => Discovery::Direct,
            2 => Discovery::DirectCall,
            3 => Discovery::Indirect,
            4 => Discovery::IndirectCall,
            5 => Discovery::FarBranch,
            other => Discovery::Observed(other as u32 - 6),
        })
    }
}

/// Bits of a note that hold the number of the discovery. Addresses of code leave as many free.
const KIND_BITS: u32 = 6;
/// How many notes there can be.
pub const CAPACITY: usize = (64 << 10) - 1;

/// The notes, in memory that all processes of the tree share.
#[repr(C)]
struct Notes {
    /// How many were begun.
    begun: AtomicU64,
    notes: [AtomicU64; CAPACITY],
}

static NOTES: AtomicPtr<Notes> = AtomicPtr::new(core::ptr::null_mut());
/// How many of the notes this process has followed.
static FOLLOWED: AtomicU64 = AtomicU64::new(0);

fn notes() -> Option<&'static Notes> {
    // SAFETY: set once to a mapping of that size that is never unmapped.
    unsafe { NOTES.load(Ordering::Acquire).as_ref() }
}

/// Notes what the process has found about the code at `pc`.
pub fn note(pc: u64, discovery: Discovery) {
    let Some(notes) = notes() else { return };
    // Checked first, so that the count of a tree that runs for long does not grow without bound.
    if notes.begun.load(Ordering::Relaxed) >= CAPACITY as u64 {
        return;
    }
    let index = notes.begun.fetch_add(1, Ordering::Relaxed);
    if let Some(note) = notes.notes.get(index as usize) {
        note.store(pc << KIND_BITS | discovery.number(), Ordering::Release);
    }
}

/// Before a fork: finds what other processes of the tree have found since the last one.
pub fn follow(translator: &mut Translator) {
    let Some(notes) = notes() else {
        create();
        return;
    };
    let begun = notes.begun.load(Ordering::Acquire).min(CAPACITY as u64);
    let followed = FOLLOWED.load(Ordering::Relaxed);
    if begun == followed {
        return;
    }
    FOLLOWED.store(begun, Ordering::Relaxed);
    for note in &notes.notes[followed as usize..begun as usize] {
        let packed = note.load(Ordering::Acquire);
        let (pc, kind) = (packed >> KIND_BITS, packed & ((1 << KIND_BITS) - 1));
        // A note of 0 is from a process that is just writing it, or was killed.
        if let Some(discovery) = Discovery::numbered(kind)
            && !space::is_writable_code(pc)
        {
            translator.prepare(pc, discovery);
        }
    }
}

/// Makes the memory for notes. Without it, nothing is noted.
fn create() {
    let len = size_of::<Notes>() as u64;
    let flags = linux::MAP_SHARED
        | linux::MAP_ANONYMOUS
        | linux::MAP_NORESERVE
        | linux::MAP_FIXED_NOREPLACE;
    let prot = linux::PROT_READ | linux::PROT_WRITE;
    // SAFETY: NOREPLACE leaves anything that is already there alone.
    let raw = unsafe { sys::mmap(crate::memory::reserve(len), len, prot, flags, -1, 0) };
    if !is_err(raw) {
        NOTES.store(raw as *mut Notes, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::Discovery::{self, *};

    #[test]
    fn discoveries_are_known_by_their_numbers() {
        for discovery in [
            Direct,
            DirectCall,
            Indirect,
            IndirectCall,
            FarBranch,
            Observed(0),
            Observed(7),
        ] {
            assert_eq!(Discovery::numbered(discovery.number()), Some(discovery));
        }
        assert_eq!(Discovery::numbered(0), None);
    }
}
