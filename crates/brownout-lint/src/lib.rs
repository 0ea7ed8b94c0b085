//! Single-pass rules on a trace: patterns of misused persistent memory (Mumak §4.2, Agamotto §2.4.2, and what
//! pmemcheck looks for).
//!
//! [`Lint`] takes the events of a trace in order. It follows them with the model of
//! [`brownout_model`], and at each flush, fence and guarantee, and when stores can no longer be made
//! persistent, asks the [rules](RULES). Which files are persistent memory is known only at the end of
//! the pass, so all candidates are judged and findings on others are dropped.
//!
//! What it finds are places in the program ([`RawFinding`]), named by process, instruction and calling
//! context; symbols are somebody else's business. So is telling the user's code from a library's:
//! see [`Attribution`].
//!
//! Demands that only one program makes are put as [oracles](oracle).
//!
//! Lines are known by file and offset, not by address: a file mapped twice, or by several processes, has
//! one state.
#![forbid(unsafe_code)]

mod attribution;
mod follower;
mod lost_stores;
pub mod oracle;
mod raw_finding;
mod rule_inputs;
mod rules;
mod site_keys;
mod tally;
mod transactions;

pub use attribution::{Attribution, Origin, origin_of};
pub use brownout_model::Profile;
pub use follower::{Lint, Outcome};
pub use raw_finding::{RawFinding, RawPlace, RawRange, RawValue};
pub use rules::{RULES, rule};
pub use transactions::watched_functions;
