//! How the assembly records the events of a site: decided once, when the site is made.

use super::sites::Site;
use core::mem::offset_of;

/// Where the assembly finds the payload of a record.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In memory, at the address that the instrument's assembly left.
    Memory = 0,
    /// There is an address, but no payload.
    AddressOnly = 1,
    /// In [`super::EventArea::payload`].
    Payload = 2,
    /// There is neither a payload nor an address.
    Nothing = 3,
    /// In memory, if the zero flag was set.
    MemoryIfZero = 4,
    /// Only Rust code can find it.
    Rust = 5,
}

/// What an event changes in its thread, besides its ring.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// [`super::EventArea::unordered`] is cleared.
    Orders = 0,
    /// [`super::EventArea::unordered`] is set.
    Leaves = 1,
    Nothing = 2,
    /// The counter at [`super::EventArea::counter`] is incremented.
    Increments = 3,
    /// The counter at [`super::EventArea::counter`] is decremented.
    Decrements = 4,
}

/// How the assembly records a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RecordPlan {
    /// `kind` and `flags` of the record.
    pub kind: u16,
    pub flags: u16,
    pub source: Source,
    pub effect: Effect,
    /// How a [`brownout_ring::Intent`] of the site is to be read: one of [`brownout_ring::evidence`].
    pub evidence: u8,
    /// What a call of the function means for the order of threads: one of [`brownout_ring::watch::Order`]. And whether the record
    /// borrows its number ([`brownout_ring::BORROWED`]): [`RecordPlan::BORROWS`], or [`RecordPlan::MAY_BORROW`]. And
    /// [`RecordPlan::QUERIES`].
    pub order: u8,
}

/// The longest payload that assembly copies.
const MAX_SIZE: u32 = 64;

impl RecordPlan {
    /// Records that only Rust code writes.
    pub const BY_RUST: RecordPlan = RecordPlan {
        kind: 0,
        flags: 0,
        source: Source::Rust,
        effect: Effect::Nothing,
        evidence: brownout_ring::evidence::NONE as u8,
        order: 0,
    };

    /// The plan for payloads of `size` bytes: long ones are left to Rust code.
    pub fn for_size(self, size: u32) -> RecordPlan {
        let source = if size > MAX_SIZE {
            Source::Rust
        } else {
            self.source
        };
        RecordPlan { source, ..self }
    }

    /// The plan for a recording in which each record draws its number.
    pub fn drawing(self) -> RecordPlan {
        RecordPlan {
            order: self.order & !(RecordPlan::BORROWS | RecordPlan::MAY_BORROW),
            ..self
        }
    }

    /// In `order`: the record borrows its number.
    pub const BORROWS: u8 = 0x80;
    /// In `order`: the record borrows its number if [`super::EventArea::extra`] is not zero.
    pub const MAY_BORROW: u8 = 0x40;
    /// In `order`: a call that is equal to the last one need not be recorded.
    pub const QUERIES: u8 = 0x20;
    /// The rest of `order`.
    pub const ORDER_MASK: u8 = 0x1f;

    /// Offsets, in a [`Site`], of what the assembly reads: kind and flags together, and the rest.
    pub const TAG: usize = in_site(offset_of!(RecordPlan, kind));
    pub const SOURCE: usize = in_site(offset_of!(RecordPlan, source));
    pub const EFFECT: usize = in_site(offset_of!(RecordPlan, effect));
    pub const EVIDENCE: usize = in_site(offset_of!(RecordPlan, evidence));
    pub const ORDER: usize = in_site(offset_of!(RecordPlan, order));
}

const fn in_site(field: usize) -> usize {
    offset_of!(Site<()>, plan) + field
}
