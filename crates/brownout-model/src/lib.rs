//! Persistency semantics: what persistent memory may contain after a crash.
//!
//! The model processes stores, flushes, fences and write-backs in the single order in which they took effect. It
//! does not depend on where they come from and performs no I/O. It has four interfaces with the same semantics,
//! which are selected by a [`Profile`]:
//!
//! - The [`Tracker`] processes a stream of events. It keeps the stores that are not yet *guaranteed* to survive a
//!   crash, and notifies a [`PersistObserver`] when a store becomes guaranteed.
//! - [`CrashStates`], which a tracker computes at any time, are the states that a crash at that time can leave: for each
//!   [unit](Profile::unit) an interval of its store sequence, independently of all other units. They can be
//!   enumerated, and narrowed by what a recovery reads.
//! - [`Exploration`] finds all behaviours of a recovery without enumerating states: it follows what recovery reads
//!   ([`PossibleMemory`]), at the [`CrashTime`]s of a [`StoreHistory`].
//! - [`PersistOrder`] answers which stores of a whole run persist before others, in logarithmic time.
//!
//! The semantics are those of Px86 as in Jaaru (ASPLOS'21, Table 1, Figs. 7 and 8) and Raad et al. (POPL'20), for an
//! execution whose order is known:
//!
//! - A cached store is appended to the sequence of its unit. A crash keeps a prefix of the sequence that includes at
//!   least all guaranteed stores.
//! - `clflush` guarantees all earlier cached stores to the line.
//! - `clflushopt` and `clwb` guarantee the cached stores before the *flush*, once the same thread executes a fence.
//! - A non-temporal store is in no sequence. Until the next fence of its thread, a crash may keep or lose it,
//!   independently of all other stores.
//! - `sfence`, `mfence` and locked instructions are fences.
//! - Writing back pages (`msync`, `fsync`) guarantees all stores to them.
//!
//! Not modelled: failures of the memory itself, and stores whose order of effect is not known.
//!
//! # Example: a store, a flush and a fence
//!
//! ```
//! use brownout_model::*;
//!
//! /// Counts the stores that become guaranteed.
//! #[derive(Default)]
//! struct Count(usize);
//!
//! impl PersistObserver for Count {
//!     type Store = ();
//!     type Flush = ();
//!     const HISTORY: bool = false;
//!
//!     fn guaranteed(&mut self, _: LineRef<'_>, _: Marks<'_>, _: &LiveStore<()>, _: Access) {
//!         self.0 += 1;
//!     }
//! }
//!
//! let mut tracker = Tracker::new(Profile::ADR);
//! let mut count = Count::default();
//! let thread = tracker.add_thread();
//! let at = |time| Access { thread, time: Time(time) };
//! let line = tracker.line(PmAddress { space: SpaceId(0), offset: 0x40 });
//!
//! let bytes = ByteMask::range(0, 8);
//! tracker.store(&mut count, at(1), line, bytes, StoreKind::Cached, ());
//! tracker.flush(&mut count, at(2), line, FlushEffect::Deferred, ());
//! assert_eq!((count.0, tracker.live_stores()), (0, 1)); // flushed, but a crash can still lose it
//! tracker.fence(&mut count, at(3));
//! assert_eq!((count.0, tracker.live_stores()), (1, 0));
//! ```
//!
//! [`CrashStates`] and [`UnitStates::choose`] have examples for crash states and narrowing.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod address;
mod byte_mask;
mod crash_states;
mod explore;
mod line_marks;
mod live_stores;
mod observer;
mod pending;
mod persist_order;
mod profile;
mod shadow;
mod tracker;
mod unit_states;

pub use address::{LINE, LineSlot, PAGE, PmAddress, SpaceId, ThreadSlot, Time, line_parts};
pub use byte_mask::ByteMask;
pub use crash_states::{CrashState, CrashStates};
pub use explore::{
    CrashTime, Exploration, IncompleteLine, InitialBytes, PossibleMemory, ReadClass, ReadClasses,
    ReadSource, RecoveryMemory, StoreHistory, StoreHistoryBuilder, states_log10,
};
pub use line_marks::{Mark, Marks};
pub use live_stores::{LiveStore, LiveStoresMut};
pub use observer::{Access, FlushEffect, PersistObserver, StoreKind};
pub use pending::Pending;
pub use persist_order::{
    ObjectOrder, OrderedStore, PersistInterval, PersistOrder, PersistOrderBuilder, StoreNumber,
};
pub use profile::{Profile, Wait};
pub use shadow::LineRef;
pub use tracker::Tracker;
pub use unit_states::{Part, Piece, Source, Tearing, UnitState, UnitStates};
