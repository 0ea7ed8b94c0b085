//! Crash testing on recorded traces: where a crash could come, what it would leave, and what the program's own
//! recovery makes of that.
//!
//! Implements Mumak §4.1 on traces: the target is never run again.
//!
//! | | |
//! |---|---|
//! | `failure_point`, `sample`, `operation` | where crashes are tried, and how far the workload was then |
//! | `image` | what a crash leaves, and how a file is made to hold it |
//! | [`recovery`] | runs the user's recovery, apart from everything else |
//! | `bench`, `pool`, `verdict` | recovery on one image after the other, and what its end says |
//! | `run`, `uncrashed`, `campaign`, `order`, `journal`, `trial` | all failure points of a trace, and what came of each |
//! | `narrow`, `minimize`, `cause` | which stores make the difference |
//! | `outside` | what the caller provides |
//! | `findings`, `rules`, `token` | what is reported, and what reproduces it |

mod baseline;
mod campaign;
mod cause;
mod error;
mod failure_point;
mod findings;
mod host;
mod image;
pub mod journal;
mod minimize;
mod narrow;
mod operation;
mod order;
mod recorded_run;
pub mod rules;
mod sample;
mod situation;
mod token;
mod trial;

pub use baseline::{Baseline, recover_without_crash};
pub use campaign::{Campaign, Tried};
pub use cause::{Cause, Culprit};
pub use error::CrashError;
pub use failure_point::{
    CallingContexts, FailurePoint, FailurePoints, Granularity, Leaf, Occurrence, PointKind, Scope,
    StackId,
};
pub use findings::{Group, findings, group, line_of};
pub use host::{Progress, ProgressObserver, Symbols};
pub use image::{CrashImage, ImageBuilder, ImageDigest, PersistentFiles};
pub use journal::{Journal, JournalError, Shard, TestConfiguration};
pub use narrow::{Narrowed, narrow};
pub use operation::Operation;
pub use recorded_run::{RecordedRun, Survey};
pub use situation::CrashSituation;
pub use token::{NotAToken, Token};
pub use trial::{Failure, Trial};
