//! Persistency-induced races: a thread loads what another one has stored before that is guaranteed to survive a crash (HawkSet,
//! EuroSys'25).
//!
//! [`RaceDetector`] takes the events of a trace in order. It keeps, for each thread, the locks that it holds and a vector clock, and for
//! each store the time until it is durable. At the end, stores and loads to the same bytes are compared: see [`RawRace`].
//!
//! Bytes and locks in files are identified by file and offset, not by address: a file mapped twice, or by several processes,
//! is one.
//!
//! Deviates from the paper: positions in the trace take the place of counted accesses in clocks, and a pair is compared from the store to
//! its end ([`pairs`]). Initialisation removal leaves out more ([`lines`]): also stores that are overwritten
//! before another thread can see them, and what a thread loads from bytes that it has initialised itself. A reader that persists what it
//! has read, before it stores anything, is no race. A semaphore that a thread waits for and posts itself is a lock.
//!
//! Never reports: pairs that a lock known to the analysis keeps apart, accesses of one thread, accesses to locks, accesses of
//! persistence libraries to their own data.
//!
//! Can miss: what the run did not do. Harm that leaves the process by a system call.
//!
//! Can report falsely: threads that wait for each other in ways that are not known (flags in memory, `waitpid`), and protocols that
//! cope with lost data.
#![forbid(unsafe_code)]

mod accesses;
mod address_cache;
mod allocations;
mod clocks;
mod forced;
mod lifetimes;
mod lines;
mod lock_words;
mod locks;
mod observations;
mod outcome;
mod pairs;
mod publication;
mod race;
mod rule;
mod sites;
mod sync_functions;
mod synchronization;
mod threads;

pub use allocations::CustomAllocator;
pub use forced::{ForcedOutcome, ForcedRead, ReaderAct};
pub use locks::{LockName, LockSource};
pub use observations::{Dependence, Harm};
pub use outcome::{ExcludedPair, RaceCounts, RaceOutcome, RacyAccess, RacyEnd, RacyLoad, RawRace};
pub use race::{RaceDetector, RaceOptions};
pub use rule::PERSISTENCY_RACE;
pub use sites::{AccessOwner, ForcedRoles, RaceSite, TargetCode};
pub use sync_functions::{CustomLock, output_functions, released_argument, watched_functions};
