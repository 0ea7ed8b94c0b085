//! What happens at the sites of persistent memory, and how it is recorded.

use crate::arch::instruments::pm::form::EmulatedForm;
use crate::instruments::events::{Effect, RecordPlan, Site, SiteTable, Source};
use brownout_ring::{evidence, kind, store};

/// What happens at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteKind {
    /// A store of the operand's size, with [`store`] flags.
    Store(u16),
    /// As `Store`, with the value in the payload of the event.
    Captured(u16),
    /// A store of those elements that a mask selects, and the elements' size.
    Masked(u16, u8),
    /// A store of as many elements, from the first on, as a mask selects.
    Compressed(u8),
    /// A store that happens if the comparison before it succeeds.
    Conditional(u16),
    /// A store whose extent is found by comparing memory.
    Area,
    Load,
    /// `flush` kind.
    Flush(u16),
    /// `fence` kind.
    Fence(u16),
    /// The runtime carries out the instruction, which is of this form, and records what it does.
    Emulated(EmulatedForm),
}

pub type PmSite = Site<SiteKind>;

pub static SITES: SiteTable<SiteKind> = SiteTable::new();

/// The site with a number that generated code was given.
pub fn site(number: u32) -> PmSite {
    SITES.get(number)
}

impl SiteKind {
    /// How the assembly records such a site.
    pub fn plan(self) -> RecordPlan {
        let plan = |kind, flags, source, effect| RecordPlan {
            kind,
            flags,
            source,
            effect,
            evidence: self.evidence() as u8,
            order: if self.borrows_number() {
                RecordPlan::BORROWS
            } else {
                0
            },
        };
        let stored = |source, flags| {
            let locked = flags & store::LOCKED != 0;
            let effect = if locked {
                Effect::Orders
            } else {
                Effect::Leaves
            };
            plan(kind::STORE, flags, source, effect)
        };
        match self {
            SiteKind::Store(flags) => stored(Source::Memory, flags),
            SiteKind::Captured(flags) => stored(Source::Payload, flags),
            SiteKind::Conditional(flags) => stored(Source::MemoryIfZero, flags),
            SiteKind::Masked(flags, _) => stored(Source::Rust, flags),
            SiteKind::Compressed(_) | SiteKind::Area => stored(Source::Rust, 0),
            SiteKind::Load => plan(kind::LOAD, 0, Source::Memory, Effect::Nothing),
            SiteKind::Fence(flags) => plan(kind::FENCE, flags, Source::Nothing, Effect::Orders),
            SiteKind::Flush(flags) => plan(kind::FLUSH, flags, Source::AddressOnly, Effect::Leaves),
            SiteKind::Emulated(_) => RecordPlan::BY_RUST,
        }
    }

    /// Whether the order among events of other threads is known without a number of its own. Stores to the page come before or after
    /// a load because of its lock. A flush makes nothing durable before the fence.
    fn borrows_number(self) -> bool {
        matches!(self, SiteKind::Load | SiteKind::Flush(_))
    }

    /// What a note that is made before the store holds.
    fn evidence(self) -> u32 {
        match self {
            SiteKind::Store(_) | SiteKind::Conditional(_) => evidence::BEFORE,
            SiteKind::Masked(..) | SiteKind::Compressed(_) | SiteKind::Area => {
                evidence::BEFORE_PARTS
            }
            SiteKind::Captured(_) => evidence::VALUE,
            _ => evidence::NONE,
        }
    }
}
