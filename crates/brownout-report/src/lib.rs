//! Findings: what every analysis reports, and every form in which it is shown or kept.
//!
//! An analysis describes each of its rules by a [`RuleInfo`] and what it found by [`Finding`]s. A
//! [`Report`] merges and sorts them; [`Suppressions`] and a [`Baseline`] take out what is not to be told;
//! each [`Format`] writes it in its own way.
//!
//! Nothing here knows where a finding came from: no trace, no model, no engine.
#![forbid(unsafe_code)]

mod baseline;
mod evidence;
mod finding;
mod fingerprint;
mod format;
mod library_frames;

mod report;
mod rule;
#[cfg(test)]
mod samples;
mod source;
mod stack;
mod suppression;

pub use baseline::{Baseline, BaselineError};
pub use evidence::{ByteRange, Evidence, Value};
pub use finding::{Finding, FindingId};
pub use fingerprint::LinelessId;
pub use format::{
    Format, Github, Html, Human, JsonLines, Junit, ParseError, Sarif, SuppressedLines,
    parse_json_lines, parse_suppressed_lines,
};
pub use library_frames::primary_frame;
pub use report::{Report, Subject, Suppressed};
pub use rule::{Category, RuleInfo, Severity};
pub use source::Sources;
pub use stack::{Frame, Stack};
pub use suppression::{
    Origin, OwnFormError, SuppressionError, Suppressions, Unused, ValgrindError, suppressions_for,
};
