//! Recoveries of every kind, good and bad, run as brownout runs them.

mod engine;
mod file_paths;
mod fixture;
mod isolation;
mod killed;
mod limits;
mod servers;
mod stacks;
mod terminal;
mod verdicts;

use fixture::*;
