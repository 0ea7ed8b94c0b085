//! Where code and operands of cases lie: at the same addresses in every run.
//!
//! The arena is four pages between two that cannot be accessed. The inner two are the operand's: ordinary
//! memory, or a shared mapping of a file. The outer two are ordinary memory always, so that accesses
//! can begin in one kind and end in the other.

use std::ops::Range;

pub const PAGE: u64 = 4096;
/// Bytes of the arena that can be accessed.
pub const ARENA_BYTES: usize = 4 * PAGE as usize;
/// The part of the arena that may be a file.
pub const FILE_BYTES: usize = 2 * PAGE as usize;
pub const FILE_AT: usize = PAGE as usize;
/// Bytes of code that a case may have, and where in them its first function starts.
pub const SLOT: u64 = 256;
pub const FUNCTION: u64 = 128;
pub const SECOND_FUNCTION: u64 = 192;

/// Where everything lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// Below 2 GiB, where engines like code to be.
    Low,
    /// Where the kernel puts libraries: out of reach of displacements from anything low.
    High,
    /// Above 2 GiB, but where neighbours of a table of all code may be mapped.
    Middle,
}

impl Region {
    pub const ALL: [Region; 3] = [Region::Low, Region::High, Region::Middle];

    pub fn name(self) -> &'static str {
        match self {
            Region::Low => "low",
            Region::High => "high",
            Region::Middle => "middle",
        }
    }

    fn base(self) -> u64 {
        match self {
            Region::Low => 0,
            Region::High => 0x6f00_0000_0000,
            Region::Middle => 0xc0_0000_0000,
        }
    }

    /// First byte of the arena that can be accessed.
    pub fn arena(self) -> u64 {
        self.base() + 0x3000_1000
    }

    pub fn arena_range(self) -> Range<u64> {
        self.arena()..self.arena() + ARENA_BYTES as u64
    }

    /// The part of the arena that may be a file.
    pub fn file_range(self) -> Range<u64> {
        let start = self.arena() + FILE_AT as u64;
        start..start + FILE_BYTES as u64
    }

    /// The way out of all cases; they follow, one in each slot.
    pub fn exit(self) -> u64 {
        self.base() + 0x4000_0000
    }

    pub fn slot(self, index: usize) -> u64 {
        self.exit() + SLOT * (index as u64 + 1)
    }
}
