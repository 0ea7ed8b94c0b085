//! Persistency semantics: what persistent memory may hold after a crash.
//!
//! The model is told of stores, flushes, fences and write-backs in the one order in which they took
//! effect. It has no idea where they come from, and does no input or output. Its two faces share
//! one set of semantics, chosen by a [`Profile`]:
//!
//! - the [`Tracker`] streams: it holds the stores that are not yet *guaranteed*, and tells a
//!   [`PersistObserver`] when one becomes so;
//! - [`CrashStates`], taken from a tracker at any moment, are what a crash at that moment can leave:
//!   for each [unit](Profile::unit) an interval of its store sequence, independently of all others.
//!   They can be enumerated, and narrowed by what a recovery reads.
//!
//! The semantics are those of Px86 as in Jaaru (ASPLOS'21, Table 1, Figs. 7 and 8) and Raad et al.
//! (POPL'20), on an execution whose order is known:
//!
//! - a cached store joins its unit's sequence; a crash keeps a prefix of it, at least what is guaranteed;
//! - `clflush` guarantees every cached store to the line before it;
//! - `clflushopt` and `clwb` do so from the next fence of their thread on, for the stores before the *flush*;
//! - a non-temporal store is in no sequence: until its thread's next fence it may be there or not,
//!   whatever else is;
//! - `sfence`, `mfence` and locked instructions are fences;
//! - writing back pages (`msync`, `fsync`) guarantees all stores to them.
#![forbid(unsafe_code)]

mod address;
mod byte_mask;
mod crash_states;
mod line_marks;
mod live_stores;
mod pending;
mod persist_order;
mod profile;
mod shadow;
mod tracker;
mod unit_states;

pub use address::{LINE, LineSlot, PAGE, PmAddress, SpaceId, ThreadSlot, Time, line_parts};
pub use byte_mask::ByteMask;
pub use crash_states::{CrashState, CrashStates};
pub use line_marks::{Mark, Marks};
pub use live_stores::LiveStore;
pub use pending::Pending;
pub use persist_order::PersistInterval;
pub use profile::{Profile, Wait};
pub use shadow::LineRef;
pub use tracker::{Access, FlushKind, PersistObserver, StoreKind, Tracker};
pub use unit_states::{Part, Piece, Source, Tearing, UnitState, UnitStates};
