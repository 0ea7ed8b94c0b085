//! How the assembly records a site: decided once, when the site is made.

use crate::instruments::pm::site::{Site, SiteKind};
use brownout_ring::{evidence, kind, store};
use core::mem::offset_of;

/// Where the assembly finds the payload of a site's record.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Only Rust code knows.
    Elsewhere = 0,
    /// At the alias.
    Memory = 1,
    /// In `Context::vectors`.
    Vectors = 2,
    /// At the alias, if the zero flag was set.
    MemoryIfZero = 3,
    /// There is none, nor an address.
    Fence = 4,
    /// There is none.
    Flush = 5,
}

/// What an event changes in its thread, besides its ring.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// `Context::dirty` is cleared.
    Orders = 0,
    /// `Context::dirty` is set.
    Dirties = 1,
    Nothing = 2,
    /// The call that was noted behind the open ones is open.
    Opens = 3,
    /// The innermost open call is over.
    Closes = 4,
}

/// How the assembly records a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct RecordPlan {
    /// `kind` and `flags` of its record.
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) source: Source,
    pub(crate) effect: Effect,
    /// How an [`brownout_ring::Intent`] of the site is to be read: one of [`evidence`].
    pub evidence: u8,
}

impl Site {
    /// Offsets of what an [`brownout_ring::Intent`] takes over: kind and flags, and the evidence.
    pub(crate) const TAG: usize = site(offset_of!(RecordPlan, kind));
    pub(crate) const EVIDENCE: usize = site(offset_of!(RecordPlan, evidence));
}

/// The longest payload that is copied here.
const MAX_SIZE: u32 = 64;

impl RecordPlan {
    /// The flags of a store.
    pub fn flags(&self) -> u16 {
        self.flags
    }

    pub fn of(site: SiteKind, size: u32) -> RecordPlan {
        let stored = |source, flags| {
            let locked = flags & store::LOCKED != 0;
            let effect = if locked {
                Effect::Orders
            } else {
                Effect::Dirties
            };
            (kind::STORE, flags, source, effect)
        };
        let (kind, flags, source, effect) = match site {
            SiteKind::Store(flags) => stored(Source::Memory, flags),
            SiteKind::Captured(flags) => stored(Source::Vectors, flags),
            SiteKind::Conditional(flags) => stored(Source::MemoryIfZero, flags),
            SiteKind::Masked(flags, _) => stored(Source::Elsewhere, flags),
            SiteKind::Compressed(_) | SiteKind::Area => stored(Source::Elsewhere, 0),
            SiteKind::Load => (kind::LOAD, 0, Source::Memory, Effect::Nothing),
            SiteKind::Fence(flags) => (kind::FENCE, flags, Source::Fence, Effect::Orders),
            SiteKind::Flush(flags) => (kind::FLUSH, flags, Source::Flush, Effect::Dirties),
            SiteKind::Call => (kind::CALL, 0, Source::Vectors, Effect::Opens),
            SiteKind::Return => (kind::RETURN, 0, Source::Vectors, Effect::Closes),
            _ => (0, 0, Source::Elsewhere, Effect::Nothing),
        };
        let evidence = match site {
            SiteKind::Store(_) | SiteKind::Conditional(_) => evidence::BEFORE,
            SiteKind::Masked(..) | SiteKind::Compressed(_) | SiteKind::Area => {
                evidence::BEFORE_PARTS
            }
            SiteKind::Captured(_) => evidence::VALUE,
            _ => evidence::NONE,
        };
        let source = if size > MAX_SIZE {
            Source::Elsewhere
        } else {
            source
        };
        RecordPlan {
            kind,
            flags,
            source,
            effect,
            evidence: evidence as u8,
        }
    }
}

/// Offset of a part of a site's plan.
pub(crate) const fn site(field: usize) -> usize {
    offset_of!(Site, plan) + field
}
