//! Lazy exploration of what recovery can find after a crash: the algorithm of Jaaru (ASPLOS'21, §3 and §4), without any
//! process or file.
//!
//! - [`StoreHistoryBuilder`] takes the events of a run and makes its [`StoreHistory`] with its [`CrashTime`]s.
//! - [`PossibleMemory`] is what a crash at one of them can leave, as a set of states for each unit. It answers which bytes a
//!   load can see (BuildMayReadFrom) and is narrowed by those that it saw (DoRead, UpdateRanges).
//! - [`RecoveryMemory`] adds what a running recovery writes.
//! - [`Exploration`] starts runs of recovery until each behaviour was seen, also with crashes inside of recovery.
//!
//! It goes beyond the paper in three ways. Equal bytes are no choice, so that a state is a member of a set, not of an interval. Stores
//! may tear, or be non-temporal and in no sequence. A load that touches several lines, or bytes of several stores, is one choice
//! among the byte strings that are possible together.
//!
//! Exact means: for the recorded order of stores. Left out, compared with the paper:
//!
//! - when an entry leaves a store buffer of the target (Fig. 11, lines 4 to 8), which Jaaru chooses: here stores leave in the order in
//!   which they were recorded, and flushes take effect there. That a thread still has a store in its buffer when power is lost is the same
//!   as that the cache line is lost;
//! - that a thread reads its own store before others do (the bypass of §2): the target was recorded on a machine that does that, and what
//!   it then did is not changed. It can only show in other orders;
//! - the order in which the threads of a recovery run: one order of each recovery is followed. What another schedule of the target's
//!   threads would have stored is not explored either.

mod completion;
mod crash_time;
mod exploration;
mod history_builder;
mod known_bytes;
mod possible_memory;
mod read_classes;
mod recovery_memory;
mod state_set;
mod step_set;
mod store_history;
mod unit_layer;
mod unit_reads;

pub use completion::IncompleteLine;
pub use crash_time::{CrashTime, states_log10};
pub use exploration::Exploration;
pub use history_builder::StoreHistoryBuilder;
pub use possible_memory::{InitialBytes, PossibleMemory};
pub use read_classes::{ReadClass, ReadClasses};
pub use recovery_memory::RecoveryMemory;
pub use store_history::StoreHistory;
pub use unit_reads::ReadSource;
