//! Single-pass rules on a trace: patterns of misused persistent memory (Mumak §4.2, Agamotto §2.4.2, and what
//! pmemcheck looks for).
//!
//! [`Lint`] takes the events of a trace in order. Three parts share the work:
//!
//! - the follower follows the events with the model of [`brownout_model`] and shows the rules each flush, fence
//!   and guarantee;
//! - the [rules](RULES), one file each, report what they find;
//! - the judge decides at the end what is reported: only then is it known which files are persistent
//!   memory and which stores are lost.
//!
//! A pass does not know the content of memory. [`ContentCheck`] is a second one that is needed if stores are lost.
//!
//! A [`RawFinding`] names sites by process, instruction and calling context. Symbols are up to the caller, and so is
//! the distinction between the user's code and a library's: see [`Attribution`].
//!
//! Checks that apply to one program only are [oracles](oracle).
//!
//! Lines are identified by file and offset, not by address: a file mapped twice, or by several processes, has
//! one state.
#![forbid(unsafe_code)]

mod attribution;
mod content_check;
mod follower;
mod judge;
mod lint;
mod lost_together;
pub mod oracle;
mod raw_finding;
mod rule;
mod rule_inputs;
mod rules;
mod site_keys;
mod tally;
mod transactions;

pub use attribution::{Attribution, Origin, origin_of};
pub use brownout_model::Profile;
pub use content_check::ContentCheck;
pub use judge::EndedPass;
pub use lint::{FileStores, Lint, LintOutcome};
pub use raw_finding::{RawFinding, RawRange, RawSite, RawValue, UnfencedSince};
pub use rules::{RULES, rule};
pub use site_keys::SiteKey;
pub use transactions::watched_functions;
