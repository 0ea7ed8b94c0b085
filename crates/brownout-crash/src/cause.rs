//! Why recovery fails at a crash point: the stores whose presence or absence makes the difference.

use brownout_report::{ByteRange, Frame};
use serde::{Deserialize, Serialize};

use crate::crash_point::CrashPoint;

/// The result of narrowing. Without stores, no small set of stores makes the difference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The crash point of its [`Trial`](crate::Trial).
    pub cause_of: CrashPoint,
    /// Stores since the last image that passed: without these recovery passes.
    pub present: Vec<Culprit>,
    /// Stores up to the next image that passes: with these recovery passes.
    pub absent: Vec<Culprit>,
    /// How many stores lie between the last image that passed and the failing one; `None` for a crash point with a
    /// [choice](crate::Choice), which is not compared with an earlier image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stores: Option<u64>,
    /// With a choice: the source lines of all stores that the crash has lost, whether they make a difference or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_lines: Vec<String>,
    /// Recoveries that the search ran.
    pub tests: u64,
}

impl Cause {
    /// Whether a store that is absent is present in part.
    pub(crate) fn is_torn(&self) -> bool {
        self.absent
            .iter()
            .any(|culprit| !culprit.persisted.is_empty())
    }

    /// Whether the stores are those of a recovery that was interrupted.
    pub(crate) fn is_inside_recovery(&self) -> bool {
        !self.cause_of.interruptions.is_empty()
    }

    /// Whether recovery fails because the crash has lost stores of the target, and for no other reason.
    pub(crate) fn is_loss(&self) -> bool {
        let loses = self.cause_of.choice.is_some() && !self.absent.is_empty();
        loses && self.present.is_empty() && !self.is_inside_recovery()
    }

    /// Whether stores that are absent and make the difference are in the unit at `offset`, in whichever file.
    pub(crate) fn misses_stores_in(&self, offset: u64, unit: u64) -> bool {
        let mut ranges = self.absent.iter().flat_map(|culprit| &culprit.ranges);
        ranges.any(|range| {
            let last = range.offset.saturating_add(range.len.saturating_sub(1));
            (range.offset / unit..=last / unit).contains(&(offset / unit))
        })
    }

    /// Whether any stores make the difference.
    pub(crate) fn names_stores(&self) -> bool {
        !self.present.is_empty() || !self.absent.is_empty()
    }
}

/// Stores of one calling context that make the difference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Culprit {
    /// The first of them.
    pub event: u64,
    pub stack: Vec<Frame>,
    pub ranges: Vec<ByteRange>,
    /// Bytes of these stores that the image has: they are torn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub persisted: Vec<ByteRange>,
}
