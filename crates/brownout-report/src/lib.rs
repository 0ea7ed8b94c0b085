//! Findings, the output of every analysis, and all formats in which they are shown and stored.
//!
//! An analysis describes each of its rules by a [`RuleInfo`] and reports [`Finding`]s. A [`Report`] merges and
//! sorts them; [`Suppressions`] and a [`Baseline`] remove findings that are not to be shown; each [`Format`]
//! writes the report.
//!
//! This crate depends on no trace, model or engine: it does not matter where a finding comes from.
#![forbid(unsafe_code)]

mod baseline;
mod code_location;
mod conclusion;
mod coverage;
mod crash_coverage;
mod evidence;
mod explain;
mod exploration_counts;
mod failure_marks;
mod finding;
mod finding_changes;
mod fingerprint;
mod format;
mod join;
mod left_out;
mod library_frames;
mod open_read;
mod other_locations;
pub mod quantity;
mod reason;
mod recovery_reads;
mod report;
mod rule;
mod rule_policy;
mod run_difference;
#[cfg(test)]
mod samples;
mod source;
mod source_fix;
mod stack;
mod stored_file;
mod suppression;
mod symbolic_coverage;

pub use baseline::{Baseline, BaselineError};
pub use conclusion::{Conclusion, Problem, RunEnd};
pub use coverage::{CoverageReport, FileCoverage, FunctionCoverage};
pub use crash_coverage::{
    Covered, CrashCoverage, ExplorationCoverage, ExploredPoint, SharedStartCoverage, StoresTyped,
};
pub use evidence::{ByteRange, Evidence, JoinedFinding, Value};
pub use failure_marks::{distinguish_lost_stores, without_numbers};
pub use finding::{Finding, FindingId, either_known};
pub use finding_changes::{Change, ChangedFinding, FindingChanges, HiddenBy};
pub use fingerprint::LinelessId;
pub use format::{
    BaselineFile, ChangeLines, Format, Github, Html, Human, JsonLines, Junit, ParseError, Sarif,
    SuppressedLines, parse_json_lines, parse_suppressed_lines,
};
pub use left_out::LeftOut;
pub use library_frames::primary_frame;
pub use open_read::{OpenRead, OpenSource, SourceState};
pub use reason::{Reason, ReasonKind, Reasons};
pub use recovery_reads::{ReadFile, ReadsSummary};
pub use report::{Report, Subject, Suppressed};
pub use rule::{Category, FailOn, RuleInfo, Severity};
pub use rule_policy::{Mistake, RulePolicy, RuleRepair, TriedLoss};
pub use run_difference::{Hides, RunDifference};
pub use source::Sources;
pub use source_fix::{FixProof, SourceEdit, SourceFix};
pub use stack::{Frame, Stack, role};
pub use stored_file::StoredFile;
pub use suppression::{
    SuppressionError, SuppressionOrigin, Suppressions, TomlError, UnusedSuppression, ValgrindError,
    suppressions_for,
};
pub use symbolic_coverage::SymbolicCoverage;
