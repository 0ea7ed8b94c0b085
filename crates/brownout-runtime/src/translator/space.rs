//! The target's address space, as far as the engine must know it: what is executable, where low
//! addresses are free, and the program break.
//!
//! The target gets the addresses that it asks for. Only mappings whose address the kernel would have chosen
//! are put below 2 GiB, and only if they are likely to hold code: there the branch table
//! covers them, and operands relative to the instruction pointer reach from the cache.
//!
//! Code that the target can write is made read-only while translations of it exist; the write faults,
//! the translations go, and the write is repeated ([`Space::code_write`]). Pages on which that happens
//! often, or where code writes next to itself, are *checked* instead: translations of them compare the
//! original with what was translated each time they run.

use crate::address_map::{FastMap, FastSet};
use crate::lock::Lock;
use crate::memory::{PAGE, page_down, page_up};
use crate::sys;
use crate::sys::{is_err, linux};
use crate::translator::cache::{CACHE, CACHE_END, FAR};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

/// Where mappings chosen by the engine start.
const LOW_START: u64 = 0x1000_0000;
/// Where they end. The lookup of a small negative address in the branch table reads between here and the table.
/// Wild pointers often are such addresses, and nothing is mapped there, so that the lookup faults.
const LOW_END: u64 = FAR - (2 << 20);
/// Step of the search among mappings that the engine did not make.
const PROBE: u64 = 1 << 20;
/// Where the program break starts; close to where the kernel puts the heap of a PIE.
const BREAK_START: u64 = 0x5600_0000_0000;
/// Times that a page's guard is lifted before its code is checked instead.
const MOST_LIFTED_GUARDS: u32 = 16;
/// Addresses from here on make a branch-table lookup fault for certain.
const SURELY_FAULTING: u64 = 1 << 44;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Region {
    end: u64,
    writable: bool,
    /// Code here is always checked: stacks.
    checked: bool,
}

/// Code of a file.
#[derive(Clone, Copy, Debug)]
struct CodeModule {
    end: u64,
    base: u64,
    generation: u32,
}

/// What was removed from a range, to be restored if the system call fails.
#[derive(Default)]
pub struct Removed {
    executable: Vec<(u64, Region)>,
    modules: Vec<(u64, CodeModule)>,
    guarded: Vec<u64>,
    checked: Vec<u64>,
}

impl Removed {
    pub fn is_empty(&self) -> bool {
        self.executable.is_empty()
    }
}

/// Counts changes of executable memory.
pub(crate) static EPOCH: AtomicU32 = AtomicU32::new(1);

/// A number that differs before and after any change of executable memory.
pub fn epoch() -> u32 {
    EPOCH.load(Ordering::Acquire)
}

/// A file mapped as code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleAt {
    /// Where offset 0 of the file is mapped.
    pub base: u64,
    /// Differs for each time that something is mapped at `base`.
    pub generation: u32,
}

/// The module whose code is at `pc`.
pub fn module_at(pc: u64) -> Option<ModuleAt> {
    let space = SPACE.lock();
    let (_, module) = space.modules.range(..=pc).next_back()?;
    (pc < module.end).then_some(ModuleAt {
        base: module.base,
        generation: module.generation,
    })
}

pub struct Space {
    executable: BTreeMap<u64, Region>,
    /// Where files were mapped from their start, and how far: the bases of modules.
    bases: BTreeMap<u64, u64>,
    /// Mapped code of files: end, base of the module, generation.
    modules: BTreeMap<u64, CodeModule>,
    generation: u32,
    /// Pages that are read-only because code on them is translated.
    guarded: FastSet<u64>,
    /// Pages whose translations check themselves.
    checked: FastSet<u64>,
    /// How often the guard of a page was lifted.
    lifted: FastMap<u64, u32>,
    /// Ranges below 2 GiB that are in use: start to end.
    low: BTreeMap<u64, u64>,
    break_end: u64,
}

pub static SPACE: Lock<Space> = Lock::new(Space {
    executable: BTreeMap::new(),
    bases: BTreeMap::new(),
    modules: BTreeMap::new(),
    generation: 0,
    guarded: FastSet::with_hasher(core::hash::BuildHasherDefault::new()),
    checked: FastSet::with_hasher(core::hash::BuildHasherDefault::new()),
    lifted: FastMap::with_hasher(core::hash::BuildHasherDefault::new()),
    low: BTreeMap::new(),
    break_end: BREAK_START,
});

/// The end of the executable region around `pc`, if there is one.
pub fn executable_end(pc: u64) -> Option<u64> {
    SPACE.lock().region(pc).map(|(_, region)| region.end)
}

/// Where the code around `pc` ends, if there is any. Neighbouring regions are included as far as a block can reach.
pub fn code_end(pc: u64) -> Option<u64> {
    SPACE.lock().code_end(pc)
}

/// Guards the code at `pc` against writes, if the target could write it.
pub fn protect_code(pc: u64, end: u64) {
    let mut space = SPACE.lock();
    if space.is_checked(pc) {
        return;
    }
    // A block is shorter than a page, so it lies on at most two.
    for page in [page_down(pc), page_down(pc) + PAGE] {
        let writable = space
            .region(page.max(pc))
            .is_some_and(|(_, region)| region.writable);
        if page < end && writable && space.guarded.insert(page) {
            // SAFETY: taking the right to write from a page of the target; writes fault and are
            // repeated after `code_write`.
            unsafe {
                crate::sys!(
                    linux::__NR_mprotect,
                    page,
                    PAGE,
                    linux::PROT_READ | linux::PROT_EXEC
                )
            };
        }
    }
}

/// Whether the target can write the code at `pc`, if there is any.
pub fn is_writable_code(pc: u64) -> bool {
    let space = SPACE.lock();
    space.region(pc).is_some_and(|(_, region)| region.writable) || space.is_checked(pc)
}

/// Whether translations of the code at `pc` must check that it is still the same.
pub fn is_checked(pc: u64) -> bool {
    SPACE.lock().is_checked(pc)
}

impl Space {
    fn is_checked(&self, pc: u64) -> bool {
        self.checked.contains(&page_down(pc))
            || self.checked.contains(&(page_down(pc) + PAGE))
            || self.region(pc).is_some_and(|(_, region)| region.checked)
    }

    fn region(&self, pc: u64) -> Option<(u64, Region)> {
        let (&start, &region) = self.executable.range(..=pc).next_back()?;
        (pc < region.end).then_some((start, region))
    }

    fn code_end(&self, pc: u64) -> Option<u64> {
        let (_, region) = self.region(pc)?;
        let mut end = region.end;
        while end - pc < PAGE
            && let Some(neighbour) = self.executable.get(&end)
        {
            end = neighbour.end;
        }
        Some(end)
    }

    /// Notes a new executable region. True if indirect branches can no longer use the branch table.
    #[must_use]
    pub fn add_executable(&mut self, start: u64, end: u64, writable: bool) -> bool {
        let _ = self.remove(start, end);
        self.executable.insert(
            start,
            Region {
                end,
                writable,
                checked: false,
            },
        );
        end > FAR && start < SURELY_FAULTING
    }

    /// Notes that a stack may hold code.
    pub fn add_executable_stack(&mut self, start: u64, end: u64) {
        self.executable.insert(
            start,
            Region {
                end,
                writable: true,
                checked: true,
            },
        );
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
        self.modules.insert(
            start,
            CodeModule {
                end,
                base,
                generation: self.generation,
            },
        );
    }

    /// Notes that nothing is executable in the range any more.
    pub fn remove(&mut self, start: u64, end: u64) -> Removed {
        EPOCH.fetch_add(1, Ordering::AcqRel);
        let outside = |at: u64, stop: u64| stop <= start || at >= end;
        let modules = (self.modules.iter())
            .filter(|(at, module)| !outside(**at, module.end))
            .map(|(&at, &module)| (at, module))
            .collect();
        self.modules.retain(|&at, module| outside(at, module.end));
        let overlapping: Vec<(u64, Region)> = self
            .executable
            .range(..end)
            .rev()
            .take_while(|(_, region)| region.end > start)
            .map(|(&at, &region)| (at, region))
            .collect();
        let mut executable = Vec::with_capacity(overlapping.len());
        for (at, region) in overlapping {
            self.executable.remove(&at);
            let part = |end: u64| Region { end, ..region };
            if at < start {
                self.executable.insert(at, part(start));
            }
            if region.end > end {
                self.executable.insert(end, region);
            }
            executable.push((at.max(start), part(region.end.min(end))));
        }
        let inside = |page: &u64| *page >= page_down(start) && *page < end;
        self.lifted.retain(|page, _| !inside(page));
        Removed {
            executable,
            modules,
            guarded: self.guarded.extract_if(inside).collect(),
            checked: self.checked.extract_if(inside).collect(),
        }
    }

    /// Restores what was removed.
    pub fn put_back(&mut self, removed: Removed) {
        self.executable.extend(removed.executable);
        self.modules.extend(removed.modules);
        self.guarded.extend(removed.guarded);
        self.checked.extend(removed.checked);
        EPOCH.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether any of the range is executable.
    pub fn any_executable(&self, start: u64, end: u64) -> bool {
        self.executable
            .range(..end)
            .next_back()
            .is_some_and(|(_, region)| region.end > start)
    }

    /// The instruction at `pc` faulted on a write to `addr`: if that was because of a guard, lifts it.
    pub fn code_write(&mut self, addr: u64, pc: u64) -> bool {
        let page = page_down(addr);
        if !self.guarded.remove(&page) {
            // Another thread may have lifted the guard a moment ago: then the write will succeed now.
            return self.region(addr).is_some_and(|(_, region)| region.writable);
        }
        let times = self.lifted.entry(page).or_default();
        *times += 1;
        // Code that writes next to itself would make no progress: its own page is guarded whenever it runs.
        if *times > MOST_LIFTED_GUARDS || page.abs_diff(page_down(pc)) <= PAGE {
            self.checked.insert(page);
        }
        let all = linux::PROT_READ | linux::PROT_WRITE | linux::PROT_EXEC;
        // SAFETY: gives the target back the rights it had.
        unsafe { crate::sys!(linux::__NR_mprotect, page, PAGE, all) };
        true
    }

    /// A free range of `len` bytes below 2 GiB, if there is one. It is the first that fits, so that what is unmapped
    /// and mapped again gets the same address, as with the kernel.
    pub fn place_low(&mut self, len: u64) -> Option<u64> {
        // A gap of one page, so that an overrun cannot reach the neighbour.
        let len = page_up(len) + PAGE;
        for (zone, zone_end) in [(LOW_START, CACHE), (CACHE_END, LOW_END)] {
            let mut at = zone;
            while let Some(found) = self.first_gap(at, zone_end, len) {
                // Mappings that are not in the table are found by trying, and remembered.
                let taken = !Self::is_free(found, len);
                self.low
                    .insert(found, found + if taken { PROBE } else { len });
                if !taken {
                    return Some(found);
                }
                at = found + PROBE;
            }
        }
        None
    }

    /// The first gap of `len` bytes in what is known of `[from, until)`.
    fn first_gap(&self, from: u64, until: u64, len: u64) -> Option<u64> {
        let mut at = from;
        for (&start, &end) in self.low.range(..until) {
            if end <= at {
                continue;
            }
            if start >= at + len {
                break;
            }
            at = end;
        }
        (at + len <= until).then_some(at)
    }

    /// Notes that a range was unmapped.
    pub fn release(&mut self, start: u64, end: u64) {
        let gone: Vec<u64> = self
            .bases
            .range(start..end)
            .map(|(&base, _)| base)
            .collect();
        for base in gone {
            self.bases.remove(&base);
        }
        if start >= FAR || self.low.is_empty() {
            return;
        }
        // Entries reach one page beyond what was mapped.
        let touched: Vec<(u64, u64)> = (self.low.range(..end))
            .filter(|&(_, &stop)| stop > start)
            .map(|(&at, &stop)| (at, stop))
            .collect();
        for (at, stop) in touched {
            self.low.remove(&at);
            if at < start {
                self.low.insert(at, start);
            }
            if stop > end + PAGE {
                self.low.insert(end, stop);
            }
        }
    }

    /// Whether `[start, start + len)` is free, tried by mapping it.
    fn is_free(start: u64, len: u64) -> bool {
        let flags = linux::MAP_PRIVATE
            | linux::MAP_ANONYMOUS
            | linux::MAP_NORESERVE
            | linux::MAP_FIXED_NOREPLACE;
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

    /// The pages that go if the program break is moved to `wanted`.
    pub fn above_break(&self, wanted: u64) -> Range<u64> {
        let end = page_up(self.break_end);
        if wanted < BREAK_START {
            return end..end;
        }
        page_up(wanted).min(end)..end
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
            // SAFETY: the target gives this memory up.
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
            checked: FastSet::default(),
            lifted: FastMap::default(),
            low: BTreeMap::new(),
            break_end: BREAK_START,
        }
    }

    #[test]
    fn unmapping_the_middle_leaves_both_ends() {
        let mut space = space();
        assert!(!space.add_executable(0x10000, 0x20000, false));
        let removed = space.remove(0x14000, 0x15000);
        assert_eq!(space.region(0x13fff).unwrap().1.end, 0x14000);
        assert!(space.region(0x14000).is_none());
        assert_eq!(space.region(0x15000).unwrap().1.end, 0x20000);
        space.put_back(removed);
        assert_eq!(space.region(0x14fff).unwrap().1.end, 0x15000);
    }

    #[test]
    fn code_continues_in_the_adjacent_region() {
        let mut space = space();
        for (start, end) in [(0x10000, 0x20000), (0x20000, 0x21000), (0x22000, 0x23000)] {
            let _ = space.add_executable(start, end, false);
        }
        assert_eq!(space.code_end(0x1ffff), Some(0x21000));
        assert_eq!(space.code_end(0x20fff), Some(0x21000));
        assert_eq!(space.code_end(0x21000), None);
    }

    #[test]
    fn a_released_range_is_used_again() {
        let mut space = space();
        let first = space.place_low(0x5000).unwrap();
        let second = space.place_low(0x5000).unwrap();
        assert!(second >= first + 0x6000);
        space.release(first, first + 0x5000);
        assert_eq!(space.place_low(0x3000), Some(first));
    }

    #[test]
    fn querying_the_break_releases_nothing() {
        let mut space = space();
        space.break_end = BREAK_START + 0x5678;
        assert!(space.above_break(0).is_empty());
        assert!(space.above_break(BREAK_START + 0x9000).is_empty());
        assert_eq!(
            space.above_break(BREAK_START + 0x1001),
            BREAK_START + 0x2000..BREAK_START + 0x6000
        );
    }

    #[test]
    fn code_above_the_branch_table_disables_table_lookups() {
        let mut space = space();
        assert!(space.add_executable(0xc0_0000_0000, 0xc0_0000_1000, false));
        assert!(!space.add_executable(0x7f00_0000_0000, 0x7f00_0000_1000, false));
    }
}
