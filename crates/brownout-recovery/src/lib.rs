//! Runs a recovery command on images of persistent memory: thousands of times, many at once, each isolated from the
//! machine and from the others.
//!
//! A [`Sandbox`] runs recoveries one after the other. Behind it is a *sandbox server*: brownout's own executable,
//! started with a hidden subcommand that calls [`serve`]. The server is a single-threaded process. In namespaces of its
//! own it shows recovery the whole file system, but everything that recovery writes goes to a private layer that is
//! discarded with the namespace. The persistent files are in that layer, at their original paths. The caller gets a
//! descriptor of each persistent file and writes its content before each run.
//!
//! ```text
//!  caller ── Sandbox ══ socket ══ sandbox server ── pid 1 of the namespace ── recovery and its children
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `runner`, `runner_pool`, `verdict`, `expected` | recovery on one image after the other, and what its end says about each image |
//! | `request`, `outcome`, `error`, `path_text` | what callers ask for and get |
//! | `sandbox`, `channel`, `file_content` | the caller's end, the messages on the socket, the content of persistent files |
//! | `sandbox_server` | the server: namespaces, the loop, the fallback without namespaces |
//! | `view` | the file system that recovery sees |
//! | `branching` | recoveries that wait where they may read other bytes, and are copied there |
//! | `reads` | what a recovery opens and reads of the persistent files |
//! | `fuzzing` | a target that is executed on one input after the other |
//! | `held_run` | a target that is run again while its threads are held |
//! | `input_run` | a target that is run on an input, and what it does is counted or recorded, or its path |
//! | `tracer`, `arch` | the stack of a recovery that failed |
//! | `command_check`, `command_line`, `hidden_status`, `program_digest`, `run_monitor`, `stall`, `readiness`, `process_tree` | starting a recovery, waiting for its end, enforcing limits |
//!
//! When brownout is killed, nothing is left behind: the server sees the socket close and kills the namespace's first
//! process. The kernel then ends all other processes of the namespace and, with the last of them, every mount.

mod arch;
mod branching;
mod channel;
mod command_check;
mod command_line;
mod error;
mod expected;
mod file_content;
mod fuzzing;
mod held_run;
mod hidden_status;
mod input_run;
mod outcome;
pub mod path_text;
mod process_tree;
mod program_digest;
mod readiness;
mod reads;
mod request;
mod run_durations;
mod run_monitor;
mod runner;
mod runner_pool;
mod sandbox;
mod sandbox_server;
mod shared_libraries;
mod shells;
mod stall;
mod sys;
mod tracer;
mod verdict;
mod view;

pub use branching::{PlannedRun, ReadGuide, SharedStartCounts, SharedStarts};
pub use command_check::{CommandProblem, check_command};
pub use command_line::under_debugger;
pub use error::{Errno, Obstacle, Refusal, SandboxError, SetupStep};
pub use expected::{AllowedOutput, Expectation};
pub use file_content::write_content;
pub use fuzzing::{FuzzOutcome, FuzzSandbox, FuzzSandboxError};
pub use held_run::HeldRun;
pub use hidden_status::{HiddenStatus, hidden_status};
pub use input_run::{
    InputObservation, InputRun, LoadedModule, PathObservation, RecordedPath, StartString,
    SymbolicInput,
};
pub use outcome::{Actor, End, Orphans, Outcome, RawFrame};
pub use program_digest::{may_depend_on_event, program_digest};
pub use reads::{
    ByteRanges, FileReads, FirstRead, Observation, ReadBytes, RecoveryActions, RecoveryLoad,
    RecoveryReads,
};
pub use request::{
    EngineRun, ExecutionMode, Isolation, Readiness, Recovery, RunRequest, SandboxServerCommand,
};
pub use runner::{Attempt, IndirectVerdict, RecoveryRunner, RecoveryTask, RunnerError};
pub use runner_pool::RunnerPool;
pub use sandbox::Sandbox;
pub use sandbox_server::serve;
pub use verdict::{Verdict, signal_name, signal_text};
