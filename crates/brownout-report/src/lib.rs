//! Findings: what every analysis reports, and every form in which it is shown or kept.
//!
//! An analysis describes each of its rules by a [`RuleInfo`] and what it found by [`Finding`]s.
//!
//! Nothing here knows where a finding came from: no trace, no model, no engine.
#![forbid(unsafe_code)]

mod evidence;
mod finding;
mod fingerprint;
mod rule;
mod stack;

pub use evidence::{ByteRange, Evidence, Value};
pub use finding::{Finding, FindingId};
pub use fingerprint::SiteId;
pub use rule::{Category, RuleInfo, Severity};
pub use stack::{Frame, Stack};
