//! libpmemobj's transactions, followed by the recorded calls of the library.
//!
//! Each thread has at most one transaction, which may be nested: what an inner one logs or allocates counts
//! until the outermost has ended. The library aborts a transaction by `longjmp`, so calls may have no
//! return. After any call that fails, nothing is judged until the transaction has ended.
//!
//! - `function` selects the functions that matter; [`brownout_libraries`] says what they mean.
//! - `ranges` is a set of bytes of files; it holds what was logged and allocated.
//! - `objects` says to which object of a pool a byte belongs.
//! - `transaction` is the state of a thread; `calls` changes it, event by event.

mod calls;
mod function;
mod objects;
mod ranges;
mod transaction;

pub(crate) use calls::{ProcessMemory, Reservations, TransactionStep};
pub use function::watched_functions;
pub(crate) use function::{CallMeaning, Functions};
pub(crate) use objects::Objects;
pub(crate) use transaction::{OpenTransactionCall, SafeReason, Transaction, UnloggedStore};
