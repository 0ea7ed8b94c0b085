//! Runs the user's recovery on crash images: thousands of times, many at once, each alone with its files.
//!
//! A [`Sandbox`] is one place where recoveries run, one after the other. Behind it is a *keeper*: brownout's own
//! executable, started with a hidden subcommand that calls [`serve`], single-threaded and apart from everything
//! else. In namespaces of its own it shows recovery the whole file system, but whatever is written goes to a
//! layer that nobody else sees and that is gone with the namespace; the PM files are in that layer, at their
//! original paths. The caller gets a descriptor of each and makes its content what it wants before each run.
//!
//! ```text
//!  caller ── Sandbox ══ socket ══ keeper ── pid 1 of the namespace ── recovery, and whatever it starts
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `request`, `outcome`, `error` | what callers say and hear |
//! | `sandbox`, `wire` | the caller's end and what goes over the socket |
//! | `keeper` | the keeper: namespaces, the loop, the place without namespaces |
//! | `view` | the file system that recovery sees |
//! | `tracer` | where a recovery was when it failed |
//! | `command_line`, `watch`, `server`, `process_tree` | starting a recovery and watching over it |
//!
//! Nothing is left when brownout is killed: the keeper sees the socket close and kills the namespace's first
//! process, with which the kernel ends all others and, with the last, every mount.

mod command_line;
mod error;
mod keeper;
mod outcome;
mod process_tree;
mod request;
mod sandbox;
mod server;
mod sys;
mod tracer;
mod view;
mod watch;
mod wire;

pub use error::{Errno, Obstacle, Refusal, SandboxError, Step};
pub use keeper::serve;
pub use outcome::{Actor, End, Outcome, RawFrame};
pub use request::{Isolation, KeeperCommand, Readiness, Recovery, Run};
pub use sandbox::Sandbox;
