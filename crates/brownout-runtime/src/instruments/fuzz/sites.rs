//! The places in the code that generated code refers to by number: operations, calls, comparisons.

use super::identity::CodeIdentity;
use crate::address_map::FastMap;
use crate::arch::Instruction;
use crate::memory;
use core::sync::atomic::{AtomicU64, Ordering};

/// Sites that a process can have. Instructions beyond are not observed.
const MOST: u32 = 1 << 20;

/// What happens at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SiteKind {
    /// An instruction that loads from the memory at its operand.
    Load,
    /// One that stores to it, and may load from it.
    Store,
    Flush,
    Fence,
    /// Code of a library for persistent memory that is entered from outside of libraries.
    Entry,
    /// A call in the program under test.
    Caller,
    /// The function before which the process is copied.
    ForkAt,
    /// A comparison of operands, or a call that may compare.
    Comparison,
}

#[derive(Clone, Copy)]
pub struct FuzzSite {
    pub kind: SiteKind,
    pub place: CodeIdentity,
    pub insn: Instruction,
}

static TABLE: AtomicU64 = AtomicU64::new(0);

/// Maps the table.
pub fn create() {
    let bytes = u64::from(MOST) * size_of::<FuzzSite>() as u64;
    TABLE.store(memory::map(bytes), Ordering::Relaxed);
}

/// The site with a number that generated code was given.
pub fn get(number: u32) -> FuzzSite {
    let table = TABLE.load(Ordering::Relaxed) as *const FuzzSite;
    // SAFETY: only numbers from `FuzzSites::add` are in generated code; their entries were written before it could run, and are not written
    // again.
    unsafe { *table.add(number as usize) }
}

/// The translator's side: gives out numbers. A number is never given out again.
#[derive(Default)]
pub struct FuzzSites {
    count: u32,
    known: FastMap<(u64, u32), u32>,
}

impl FuzzSites {
    /// The number of a site; `None` if there are too many.
    pub fn add(
        &mut self,
        kind: SiteKind,
        place: CodeIdentity,
        pc: u64,
        insn: &Instruction,
    ) -> Option<u32> {
        let key = (pc, kind as u32);
        if let Some(&number) = self.known.get(&key) {
            return Some(number);
        }
        if self.count == MOST {
            return None;
        }
        let number = self.count;
        self.count += 1;
        let table = TABLE.load(Ordering::Relaxed) as *mut FuzzSite;
        let insn = *insn;
        // SAFETY: an entry of the table, which no code refers to yet.
        unsafe {
            table
                .add(number as usize)
                .write(FuzzSite { kind, place, insn })
        };
        self.known.insert(key, number);
        Some(number)
    }

    /// The code in a range is gone; there may be other code later.
    pub fn forget(&mut self, start: u64, end: u64) {
        self.known.retain(|(pc, _), _| !(start..end).contains(pc));
    }
}
