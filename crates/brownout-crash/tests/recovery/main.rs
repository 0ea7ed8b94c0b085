//! Recoveries of every kind, good and bad, run as brownout runs them.

mod bench_of;
mod isolation;
mod limits;
mod verdicts;

pub use bench_of::*;
