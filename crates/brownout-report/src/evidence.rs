//! The facts behind a finding: byte ranges, values, events.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::open_read::is_zero;
use crate::{Category, FindingId, Frame, Mistake, OpenRead, Severity};

/// The facts behind a finding. If it occurred several times, those of the first occurrence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// The affected bytes of persistent memory, the most important first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<ByteRange>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Value>,
    /// Positions in the trace, in the order of the stacks, as far as known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<u64>,
    /// For each stack of role `store`, an event since which its thread had executed no fence, if that is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unfenced_since: Vec<u64>,
    /// For each stack of role `store`, the number of its thread, if that is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub store_threads: Vec<u32>,
    /// Reads of recovery that can see several stores, in the order in which recovery gets to them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open_reads: Vec<OpenRead>,
    /// How many more of them there are.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_open_reads: u64,
    /// Findings whose stores went to the same object of a pool in the same transaction.
    #[serde(skip)]
    pub same_object: Vec<FindingId>,
    /// Further facts that are specific to the rule.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
    /// Findings with the same cause that are reported as this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<JoinedFinding>,
    /// The finding that represented this one in earlier results. Both have one cause, even if the evidence is not complete.
    #[serde(skip)]
    pub joined_before: Option<FindingId>,
}

/// A finding that is reported as another one, because both have one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedFinding {
    pub id: FindingId,
    /// The rule that reported it.
    #[serde(default)]
    pub rule: String,
    /// What the rule reports, as in [`Finding::mistake`](crate::Finding::mistake).
    #[serde(skip)]
    pub mistake: Mistake,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// Absent if it is the message of the finding that represents it, or if the stack is not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How many times it occurred.
    #[serde(default)]
    pub count: u64,
    /// What crash images have shown about it, as in [`Finding::confirmed`](crate::Finding::confirmed).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<bool>,
    /// The position in the trace of its first occurrence, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// The role of its first stack, if the stack is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Its first stack, innermost frame first, without the frames that lead to `main`. Of many stacks of a rule at one line, only the
    /// first are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<Frame>,
}

impl Evidence {
    /// The detail with what a failed recovery printed: its first and its last lines.
    pub const LAST_OUTPUT: &str = "last output";
    /// The detail that says how crash testing has confirmed a finding of lint.
    pub const CONFIRMED: &str = "confirmed";
    /// The detail that says how a race is known: it begins with [`OBSERVED`](Self::OBSERVED) if it has happened.
    pub const RACE: &str = "race";
    pub const OBSERVED: &str = "observed";
    /// The detail that says what came of forcing a race.
    pub const FORCED: &str = "forced";
    /// The detail that says that recovery overwrites the bytes of a finding before it reads them.
    pub const OVERWRITTEN: &str = "overwritten";
    /// The detail that says how many crash images were tried for a finding of lint.
    pub const IMAGES_TRIED: &str = "images tried";
    /// The detail that says which stores a crash image lacks.
    pub const CRASH_STATE: &str = "crash state";
    /// The detail that says where recovery was interrupted, and which of its stores a crash image lacks.
    pub const INTERRUPTED: &str = "interrupted recovery";
    /// The detail that names the schedule of threads under which a finding was made.
    pub const SCHEDULE: &str = "schedule";
    /// The detail that names the directory, inside of the results directory, with the trace that shows a finding.
    pub const RESULTS_IN: &str = "results in";
    /// The detail with the path of the input that shows a finding, inside of the results directory.
    pub const INPUT: &str = "input";
    /// The detail with the path of the persistent files on which the target started with that input, inside of the results directory;
    /// absent if it started without.
    pub const IMAGE: &str = "image";
    /// The detail that says where those files come from.
    pub const STARTED_ON: &str = "started on";

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Bytes of a persistent file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ByteRange {
    pub file: String,
    pub offset: u64,
    pub len: u64,
}

impl ByteRange {
    pub(crate) fn overlaps(&self, other: &ByteRange) -> bool {
        self.file == other.file
            && self.offset < other.offset.saturating_add(other.len)
            && other.offset < self.offset.saturating_add(self.len)
    }
}

/// `file+0x40..0x48`
impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.offset.saturating_add(self.len);
        write!(f, "{}+{:#x}..{end:#x}", self.file, self.offset)
    }
}

/// Bytes that were read or written, with a name such as `stored` or `overwritten by`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Value {
    pub name: String,
    /// Two hexadecimal digits per byte, in memory order.
    pub bytes: String,
    /// How many bytes there are, if these are only the first ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
}

impl Value {
    pub fn new(name: impl Into<String>, bytes: &[u8]) -> Self {
        use std::fmt::Write as _;
        let mut digits = String::with_capacity(bytes.len() * 2);
        for byte in bytes {
            // Writing to a string cannot fail.
            let _ = write!(digits, "{byte:02x}");
        }
        Self {
            name: name.into(),
            bytes: digits,
            length: None,
        }
    }

    /// The first `bytes` of a value that has `length` bytes.
    pub fn beginning(name: impl Into<String>, bytes: &[u8], length: u64) -> Self {
        Self {
            length: (length > bytes.len() as u64).then_some(length),
            ..Self::new(name, bytes)
        }
    }

    /// The bytes for people, at most `most` of them.
    pub(crate) fn shown(&self, most: usize) -> String {
        let known = self.bytes.len() / 2;
        let length = self.length.unwrap_or(known as u64);
        let shown = self.bytes.get(..2 * most.min(known));
        let shown = shown.unwrap_or(&self.bytes);
        match shown.len() as u64 / 2 < length {
            true => format!("{shown}… ({length} bytes)"),
            false => shown.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_values_are_readable() {
        let range = ByteRange {
            file: "/mnt/pool".into(),
            offset: 0x40,
            len: 8,
        };
        assert_eq!(range.to_string(), "/mnt/pool+0x40..0x48");
        assert_eq!(Value::new("stored", &[0, 0xff, 0x10]).bytes, "00ff10");
    }

    #[test]
    fn values_that_are_cut_say_so() {
        let whole = Value::beginning("stored", &[1, 2, 3, 4], 4);
        assert_eq!(whole, Value::new("stored", &[1, 2, 3, 4]));
        assert_eq!(whole.shown(4), "01020304");
        assert_eq!(whole.shown(2), "0102… (4 bytes)");
        let beginning = Value::beginning("stored", &[1, 2], 40);
        assert_eq!(beginning.shown(4), "0102… (40 bytes)");
        assert_eq!(beginning.shown(1), "01… (40 bytes)");
    }

    #[test]
    fn empty_evidence_is_not_written() {
        assert_eq!(serde_json::to_string(&Evidence::default()).unwrap(), "{}");
        assert_eq!(
            serde_json::from_str::<Evidence>("{}").unwrap(),
            Evidence::default()
        );
    }
}
