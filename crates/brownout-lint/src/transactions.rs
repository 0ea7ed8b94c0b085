//! libpmemobj's transactions, followed by the calls of the library that the trace tells.
//!
//! Each thread has at most one transaction, which may be nested: what an inner one logs or allocates counts
//! until the outermost has ended. The library aborts a transaction by `longjmp`, so that calls may have no
//! return; after any call that fails, nothing is judged until the transaction has ended.
//!
//! - `function` selects the functions that matter; [`brownout_libraries`] says what they mean.
//! - `ranges` is a set of bytes of files; what was logged and allocated is kept in one.
//! - `transaction` is the state of a thread; `follow` changes it, event by event.

mod follow;
mod function;
mod ranges;
mod transaction;

pub(crate) use follow::Reservations;
pub(crate) use function::Functions;
pub use function::watched_functions;
pub(crate) use transaction::{Reason, Safe, Transaction, UnloggedStore};
