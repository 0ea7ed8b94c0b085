//! Recoveries of every kind, good and bad, run as brownout runs them.

mod isolation;
mod killed;
mod limits;
mod places;
mod servers;
mod stacks;
mod terminal;
mod verdicts;
mod workplace;

use workplace::*;
