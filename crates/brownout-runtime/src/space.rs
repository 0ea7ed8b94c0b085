//! The program's address space, as far as the engine must know it: what is executable, where low
//! addresses are free, and the program break.
//!
//! Addresses that the program asks for are the ones it gets. Only mappings whose place the kernel would
//! have chosen are put below 2 GiB, and only if they are likely to hold code: there the branch table
//! covers them and RIP-relative operands reach from the cache.
//!
//! Code that the program can write is made read-only while translations of it exist; the write faults,
//! the translations go, and the write is repeated ([`Space::code_write`]).

use crate::cache::{CACHE, CACHE_END, FAR, FastSet};
use crate::lock::Lock;
use crate::memory::{PAGE, page_down, page_up};
use crate::sys::{self, is_err, linux};
use alloc::collections::BTreeMap;
use crate::unwind::ModuleAt;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

/// Where mappings chosen by the engine start.
const LOW_START: u64 = 0x1000_0000;
/// Where the program break starts; beside where the kernel puts the heap of a PIE.
const BREAK_START: u64 = 0x5600_0000_0000;
/// Addresses for which a branch-table lookup is sure to fault; below lies what might be mapped.
const SURELY_FAULTING: u64 = 1 << 44;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Region {
    end: u64,
    writable: bool,
}

/// Code of a file.
#[derive(Clone, Copy, Debug)]
struct Module {
    end: u64,
    base: u64,
    generation: u32,
}

/// Counts changes of executable memory.
static EPOCH: AtomicU32 = AtomicU32::new(1);

/// A number that differs before and after any change of executable memory.
pub fn epoch() -> u32 {
    EPOCH.load(Ordering::Acquire)
}

/// The module whose code is at `pc`.
pub fn module_at(pc: u64) -> Option<ModuleAt> {
    let space = SPACE.lock();
    let (_, module) = space.modules.range(..=pc).next_back()?;
    (pc < module.end).then_some(ModuleAt { base: module.base, generation: module.generation })
}

pub struct Space {
    executable: BTreeMap<u64, Region>,
    /// Where files were mapped from their start, and how far: the bases of modules.
    bases: BTreeMap<u64, u64>,
    /// Mapped code of files: end, base of the module, generation.
    modules: BTreeMap<u64, Module>,
    generation: u32,
    /// Pages that are read-only because code on them is translated.
    guarded: FastSet<u64>,
    low: u64,
    break_end: u64,
}

pub static SPACE: Lock<Space> = Lock::new(Space {
    executable: BTreeMap::new(),
    bases: BTreeMap::new(),
    modules: BTreeMap::new(),
    generation: 0,
    guarded: FastSet::with_hasher(core::hash::BuildHasherDefault::new()),
    low: LOW_START,
    break_end: BREAK_START,
});

/// The end of the executable region around `pc`, if there is one.
pub fn executable_end(pc: u64) -> Option<u64> {
    SPACE.lock().region(pc).map(|(_, region)| region.end)
}

/// Guards the code at `pc` against writes, if the program could write it.
pub fn protect_code(pc: u64, end: u64) {
    let mut space = SPACE.lock();
    if !space.region(pc).is_some_and(|(_, region)| region.writable) {
        return;
    }
    // A block is shorter than a page, so it lies on at most two.
    for page in [page_down(pc), page_down(pc) + PAGE] {
        if page < end && space.guarded.insert(page) {
            // SAFETY: taking the right to write from a page of the program; writes fault and are
            // repeated after `code_write`.
            unsafe { crate::sys!(linux::__NR_mprotect, page, PAGE, linux::PROT_READ | linux::PROT_EXEC) };
        }
    }
}

impl Space {
    fn region(&self, pc: u64) -> Option<(u64, Region)> {
        let (&start, &region) = self.executable.range(..=pc).next_back()?;
        (pc < region.end).then_some((start, region))
    }

    /// Notes a new executable region. True if all indirect branches must become careful about it.
    #[must_use]
    pub fn add_executable(&mut self, start: u64, end: u64, writable: bool) -> bool {
        self.remove(start, end);
        self.executable.insert(start, Region { end, writable });
        end > FAR && start < SURELY_FAULTING
    }

    /// Notes that a file was mapped from its start.
    pub fn add_base(&mut self, start: u64, end: u64) {
        self.bases.insert(start, end);
    }

    /// Notes that the code in a range comes from a file.
    pub fn add_module(&mut self, start: u64, end: u64, file_offset: u64) {
        let around = self.bases.range(..=start).next_back();
        let base = match around {
            _ if file_offset == 0 => start,
            Some((&base, &limit)) if start < limit => base,
            // Mapped piece by piece: the usual layout keeps addresses in step with offsets.
            _ => start.wrapping_sub(file_offset),
        };
        self.generation += 1;
        self.modules.insert(start, Module { end, base, generation: self.generation });
    }

    /// Notes that nothing is executable in the range any more.
    pub fn remove(&mut self, start: u64, end: u64) {
        EPOCH.fetch_add(1, Ordering::AcqRel);
        self.modules.retain(|&at, module| module.end <= start || at >= end);
        let overlapping: Vec<(u64, Region)> = self
            .executable
            .range(..end)
            .rev()
            .take_while(|(_, region)| region.end > start)
            .map(|(&at, &region)| (at, region))
            .collect();
        for (at, region) in overlapping {
            self.executable.remove(&at);
            if at < start {
                self.executable.insert(at, Region { end: start, ..region });
            }
            if region.end > end {
                self.executable.insert(end, region);
            }
        }
        self.guarded.retain(|&page| page < page_down(start) || page >= end);
    }

    /// Whether any of the range is executable.
    pub fn any_executable(&self, start: u64, end: u64) -> bool {
        self.executable.range(..end).next_back().is_some_and(|(_, region)| region.end > start)
    }

    /// A write to `addr` faulted: if that was because of a guard, lifts it.
    pub fn code_write(&mut self, addr: u64) -> bool {
        let page = page_down(addr);
        if !self.guarded.remove(&page) {
            return false;
        }
        let all = linux::PROT_READ | linux::PROT_WRITE | linux::PROT_EXEC;
        // SAFETY: gives the program back the rights it had.
        unsafe { crate::sys!(linux::__NR_mprotect, page, PAGE, all) };
        true
    }

    /// A free place of `len` bytes below 2 GiB, if there is one.
    pub fn place_low(&mut self, len: u64) -> Option<u64> {
        let len = page_up(len);
        if len > CACHE - LOW_START {
            return None;
        }
        if let Some(addr) = self.probe(self.low, CACHE, len) {
            // A page of distance, so that neighbours cannot run into each other.
            self.low = addr + len + PAGE;
            return Some(addr);
        }
        // Used up: look for holes that were given back.
        self.probe_holes(len)
    }

    /// Whether `[start, start + len)` is free, tried by mapping it.
    fn is_free(start: u64, len: u64) -> bool {
        let flags = linux::MAP_PRIVATE | linux::MAP_ANONYMOUS | linux::MAP_NORESERVE | linux::MAP_FIXED_NOREPLACE;
        // SAFETY: NOREPLACE maps only what was free; it is given back at once.
        unsafe {
            let raw = sys::mmap(start, len, linux::PROT_NONE, flags, -1, 0);
            if is_err(raw) {
                return false;
            }
            sys::munmap(raw, len);
            raw == start
        }
    }

    fn probe(&self, from: u64, until: u64, len: u64) -> Option<u64> {
        let mut at = from;
        while at + len <= until {
            if Self::is_free(at, len) {
                return Some(at);
            }
            at += page_up(len.min(16 << 20));
        }
        None
    }

    fn probe_holes(&mut self, len: u64) -> Option<u64> {
        self.probe(LOW_START, CACHE, len).or_else(|| self.probe(CACHE_END, FAR - (1 << 20), len))
    }

    /// The program break, moved to `wanted` if possible: what `brk` returns.
    pub fn set_break(&mut self, wanted: u64) -> u64 {
        if wanted < BREAK_START {
            return self.break_end;
        }
        let (old, new) = (page_up(self.break_end), page_up(wanted));
        if new > old {
            let flags = linux::MAP_PRIVATE | linux::MAP_ANONYMOUS | linux::MAP_FIXED_NOREPLACE;
            let prot = linux::PROT_READ | linux::PROT_WRITE;
            // SAFETY: NOREPLACE leaves anything that is in the way alone.
            let raw = unsafe { sys::mmap(old, new - old, prot, flags, -1, 0) };
            if is_err(raw) {
                return self.break_end;
            }
        } else if new < old {
            // SAFETY: the program gives this memory up.
            unsafe { sys::munmap(new, old - new) };
        }
        self.break_end = wanted;
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        Space {
            executable: BTreeMap::new(),
            bases: BTreeMap::new(),
            modules: BTreeMap::new(),
            generation: 0,
            guarded: FastSet::default(),
            low: LOW_START,
            break_end: BREAK_START,
        }
    }

    #[test]
    fn unmapping_the_middle_leaves_both_ends() {
        let mut space = space();
        assert!(!space.add_executable(0x10000, 0x20000, false));
        space.remove(0x14000, 0x15000);
        assert_eq!(space.region(0x13fff).unwrap().1.end, 0x14000);
        assert!(space.region(0x14000).is_none());
        assert_eq!(space.region(0x15000).unwrap().1.end, 0x20000);
    }

    #[test]
    fn code_between_the_table_and_non_canonical_addresses_makes_branches_careful() {
        let mut space = space();
        assert!(space.add_executable(0xc0_0000_0000, 0xc0_0000_1000, false));
        assert!(!space.add_executable(0x7f00_0000_0000, 0x7f00_0000_1000, false));
    }
}
