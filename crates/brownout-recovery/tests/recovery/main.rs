//! Recoveries that succeed and fail in every way, run as brownout runs them.

mod actions;
mod branches;
mod engine;
mod file_paths;
mod fixture;
mod fuzzing;
mod isolation;
mod killed;
mod limits;
mod loads;
mod reads;
mod servers;
mod stacks;
mod terminal;
mod verdicts;

use fixture::*;
