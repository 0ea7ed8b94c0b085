//! Why recovery fails at a failure point: the stores whose presence, and those whose absence, make the difference.

use brownout_report::{ByteRange, Frame};
use serde::{Deserialize, Serialize};

use crate::crash_point::CrashPoint;

/// What was found by trying images between those on which recovery passes and one on which it fails; nothing, if no few
/// stores make the difference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The crash point of its [`Trial`](crate::Trial).
    pub cause_of: CrashPoint,
    /// Stores since the last image that passed: without these recovery passes.
    pub present: Vec<Culprit>,
    /// Stores up to the next image that passes: with these recovery passes.
    pub absent: Vec<Culprit>,
    /// How many stores made the difference to the last image that passed, before the search.
    pub stores: u64,
    /// Recoveries that the search took.
    pub tests: u64,
}

/// Stores of one place in the program that make a difference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Culprit {
    /// The first of them.
    pub event: u64,
    pub stack: Vec<Frame>,
    pub ranges: Vec<ByteRange>,
}
