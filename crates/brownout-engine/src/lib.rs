//! Runs a target under instrumentation and delivers its events.
//!
//! [`record`] runs a target and writes a trace. [`Target`] runs one with any other [`EventDestination`]: a consumer in
//! this process, or none. A target runs under the loader, a static program that this crate carries (`loader_image`). The
//! loader puts the runtime, which translates and observes the target's code, into the target's address space. The
//! runtime publishes records to the wire (the crate `brownout-ring`); here they become events:
//!
//! ```text
//! program ─ launch ─▶ target ══ wire ══▶ stream ─▶ merge ─▶ decode ─▶ event_sink ─▶ event_destination
//!                       ▲                    └── drain: when to read; sequence_gap: what never arrives
//!                       └─ supervisor: signals, end
//! ```
//!
//! Nothing that the target does to its memory, the wire included, can make this crate panic.

mod arch;
mod build_ids;
mod client;
mod coverage;
mod decode;
mod drain;
mod elf;
mod event_destination;
mod event_sink;
pub mod explore;
#[cfg(test)]
mod fake_producer;
mod file_names;
mod file_use;
mod final_content;
pub mod fuzz;
mod hold;
mod last_store;
mod launch;
mod loader_image;
mod mapped_files;
mod merge;
mod name_note;
mod patch;
mod path;
mod program;
mod recorder;
mod repetition;
mod schedule;
mod sequence_gap;
mod slot_owner;
mod stream;
mod supervisor;
mod sys;
mod target;
mod thread_relations;
mod watched_functions;
mod wire;
mod wire_processes;
mod written_file;

pub use client::{CLIENT_DIVIDER, client_parts};
pub use coverage::{Branch, Coverage, CoveredModule};
pub use event_destination::{EventDestination, LiveEvents};
pub use event_sink::StopReason;
pub use file_use::FileUse;
pub use hold::{CodeLocation, HoldPlan};
pub use name_note::{NameNote, NameNoteKind};
pub use patch::{InstructionRole, PatchCounts, PatchOperations, PatchPlan, PatchedInstruction};
pub use path::{PathRecording, SymbolicSource};
pub use program::ProgramError;
pub use recorder::{RecordError, RecordOptions, Recording, is_unrecorded_program, record};
pub use repetition::{OtherInput, Repetition, set_next_pid};
pub use schedule::{InvalidSchedule, ScheduleDeadlock, ScheduledRun, ThreadSchedule, Unpinned};
pub use target::{Notice, OnFull, Target, TargetError, TargetOptions, TargetRun, is_lost_record};
pub use watched_functions::{WatchError, WatchedFunction};
pub use written_file::WrittenFile;

/// Ends this process with `signal`, as the target ended, but without a core dump. Returns only if the signal does not
/// terminate processes.
pub fn die_by(signal: i32) {
    sys::signals::die_by(signal);
}
