//! What is known about one piece of translated code.

use crate::memory::{PAGE, page_down};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A place in the cache where the target's state is all in its registers and `pc` is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    pub at: u32,
    pub pc_low: u32,
}

/// How to get the target's registers back at an instruction that faulted in the middle of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Register `0` is in the scratch spill slot.
    Scratch(u8),
    /// A return address was pushed.
    Pushed,
    /// A return address was pushed, and the branch register is in its spill slot.
    PushedSpilled,
    /// A return address was popped, and this many bytes behind it; the branch register is in its spill slot.
    Popped(u16),
    /// The lookup of an indirect branch: the target is in the branch register, whose own value is in its spill slot.
    Lookup,
    /// As `Scratch`, and an instrument had moved the access elsewhere.
    Moved(u8),
}

/// A place in the cache where an instruction may fault that needs repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Special {
    pub at: u32,
    pub pc_low: u32,
    pub repair: Repair,
}

pub struct Fragment {
    start: u32,
    end: u32,
    pc_high: u32,
    /// Target addresses for which a table may lead into this fragment.
    entries: Vec<u64>,
    /// Numbers of its direct branches.
    links: Vec<u32>,
    boundaries: Box<[Boundary]>,
    specials: Box<[Special]>,
    pages: Vec<u64>,
}

/// Collects what becomes a [`Fragment`] while it is being emitted.
pub struct Draft {
    start: u64,
    pc_high: u32,
    pub entries: Vec<u64>,
    boundaries: Vec<Boundary>,
    specials: Vec<Special>,
    pages: Vec<u64>,
}

impl Draft {
    pub fn new(start: u64, pc: u64) -> Draft {
        Draft {
            start,
            pc_high: (pc >> 32) as u32,
            entries: Vec::new(),
            boundaries: Vec::with_capacity(64),
            specials: Vec::new(),
            pages: Vec::new(),
        }
    }

    /// Whether an instruction at `pc` can be part of this fragment: positions are kept in 32 bits.
    pub fn covers(&self, pc: u64) -> bool {
        (pc >> 32) as u32 == self.pc_high
    }

    /// At cache address `at`, the instruction at `pc` of `len` bytes is next.
    pub fn boundary(&mut self, at: u64, pc: u64, len: usize) {
        self.boundaries.push(Boundary {
            at: at as u32,
            pc_low: pc as u32,
        });
        let mut page = page_down(pc);
        while page < pc + len as u64 {
            if self.pages.last() != Some(&page) && !self.pages.contains(&page) {
                self.pages.push(page);
            }
            page += PAGE;
        }
    }

    pub fn special(&mut self, at: u64, pc: u64, repair: Repair) {
        self.specials.push(Special {
            at: at as u32,
            pc_low: pc as u32,
            repair,
        });
    }

    pub fn finish(self, end: u64, links: Vec<u32>) -> Fragment {
        let mut specials = self.specials;
        specials.sort_unstable_by_key(|special| special.at);
        Fragment {
            start: self.start as u32,
            end: end as u32,
            pc_high: self.pc_high,
            entries: self.entries,
            links,
            boundaries: self.boundaries.into_boxed_slice(),
            specials: specials.into_boxed_slice(),
            pages: self.pages,
        }
    }
}

impl Fragment {
    pub fn start(&self) -> u64 {
        u64::from(self.start)
    }

    pub fn end(&self) -> u64 {
        u64::from(self.end)
    }

    pub fn pages(&self) -> &[u64] {
        &self.pages
    }

    pub fn take_entries(&mut self) -> Vec<u64> {
        core::mem::take(&mut self.entries)
    }

    pub fn take_links(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.links)
    }

    fn pc(&self, low: u32) -> u64 {
        u64::from(self.pc_high) << 32 | u64::from(low)
    }

    /// The target address, if the cache address is a boundary.
    pub fn exact(&self, at: u64) -> Option<u64> {
        let found = self
            .boundaries
            .binary_search_by_key(&(at as u32), |b| b.at)
            .ok()?;
        Some(self.pc(self.boundaries[found].pc_low))
    }

    /// The instruction of the target that the cache address belongs to, outside of stubs.
    pub fn instruction(&self, at: u64) -> Option<u64> {
        let after = self.boundaries.partition_point(|b| b.at <= at as u32);
        Some(self.pc(self.boundaries.get(after.checked_sub(1)?)?.pc_low))
    }

    /// What to do about a fault at a cache address.
    pub fn special(&self, at: u64) -> Option<(u64, Repair)> {
        let found = self
            .specials
            .binary_search_by_key(&(at as u32), |s| s.at)
            .ok()?;
        let special = &self.specials[found];
        Some((self.pc(special.pc_low), special.repair))
    }

    /// Whether the instruction at `pc` was translated into this fragment.
    pub fn translates(&self, pc: u64) -> bool {
        (pc >> 32) as u32 == self.pc_high && self.boundaries.iter().any(|b| b.pc_low == pc as u32)
    }
}
