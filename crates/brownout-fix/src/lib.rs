//! Repairs of crash-consistency bugs: edits of the target's source that add the missing flushes and fences.
//!
//! Implements Hippocrates (Neal, *Automated Techniques for Creating Reliable Persistent-Memory Systems*, chapter 3) at the level of source
//! code. A repair only adds flushes and fences, which force what evictions and timing could do anyway: it does no harm (§3.4).
//!
//! This crate neither prints nor runs anything. Its callers know the findings, judge traces and write files.
#![forbid(unsafe_code)]

mod arch;
mod diff;
mod edit;
mod evaluation;
mod executions;
mod function_copy;
mod helper;
mod hoisting;
mod idiom;
mod loop_range;
mod macros;
mod merged_stores;
mod parameters;
mod patched_trace;
mod refusal;
mod removal;
mod repair;
mod rust_receiver;
mod signature;
mod span;
mod statement;
mod statement_part;
mod stored_object;
mod syntax;

pub use diff::unified;
pub use edit::{Edit, EditConflict, apply, in_order};
pub use executions::{Membership, OpenExecutions, RepairedStatements, StatementExecution};
pub use function_copy::FunctionCopy;
pub use idiom::{CallEffect, Idioms};
pub use macros::MacroDefinitions;
pub use parameters::PointerParameters;
pub use patched_trace::{AddedCounts, AddedOperation, PatchedTraceError, write_patched};
pub use refusal::RepairRefusal;
pub use removal::remove_statement;
pub use repair::{CalledStatement, RepairOperation, RepairRequest, RepairScope, SourceRepair};
pub use span::{SourceSpan, StoreSpan};
pub use syntax::{SourceLanguage, SourceTree};
