//! The table of functions whose calls have a meaning for an analysis.
//!
//! An analysis selects its rows by [`Purpose`]. To add functions with another purpose, such as acquiring and releasing
//! locks, add a variant and its rows here; nothing else has to change.

use crate::transaction::TxFunction;

/// A function of a library, by its name in symbol tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// The name in the symbol table. For C++ and Rust this is the mangled name.
    pub name: &'static str,
    /// The number of arguments in integer registers that the analysis needs.
    pub arguments: u8,
    /// What a call means.
    pub purpose: Purpose,
}

/// What a call of a function means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// It is part of a libpmemobj transaction.
    Transaction(TxFunction),
    /// It waits for the end of the thread that its first argument identifies, and returns 0 if the thread has ended.
    ThreadJoin,
    /// It ends the process or the calling thread, and does not return. What the C library executes from here on is not
    /// the target's doing.
    Leave,
}

const fn tx(name: &'static str, arguments: u8, function: TxFunction) -> Function {
    Function {
        name,
        arguments,
        purpose: Purpose::Transaction(function),
    }
}

const fn joins(name: &'static str) -> Function {
    Function {
        name,
        arguments: 1,
        purpose: Purpose::ThreadJoin,
    }
}

const fn leaves(name: &'static str) -> Function {
    Function {
        name,
        arguments: 0,
        purpose: Purpose::Leave,
    }
}

const fn allocates(size: usize) -> TxFunction {
    TxFunction::Allocate { size: Some(size) }
}

const COPIES: TxFunction = TxFunction::Allocate { size: None };

/// All known functions.
pub const FUNCTIONS: &[Function] = &[
    tx("pmemobj_create", 3, TxFunction::Pool),
    tx("pmemobj_open", 2, TxFunction::Pool),
    tx("pmemobj_close", 1, TxFunction::Pool),
    tx("pmemobj_tx_begin", 2, TxFunction::Begin),
    tx("pmemobj_tx_commit", 0, TxFunction::Commit),
    tx("pmemobj_tx_abort", 1, TxFunction::Abort),
    tx("pmemobj_tx_end", 0, TxFunction::End),
    tx("pmemobj_tx_process", 0, TxFunction::Process),
    tx("pmemobj_tx_lock", 2, TxFunction::Other),
    tx("pmemobj_tx_xlock", 3, TxFunction::Other),
    tx("pmemobj_tx_add_range", 4, TxFunction::Add),
    tx("pmemobj_tx_add_range_direct", 2, TxFunction::AddDirect),
    tx("pmemobj_tx_xadd_range", 5, TxFunction::Add),
    tx("pmemobj_tx_xadd_range_direct", 3, TxFunction::AddDirect),
    tx("pmemobj_tx_alloc", 2, allocates(0)),
    tx("pmemobj_tx_zalloc", 2, allocates(0)),
    tx("pmemobj_tx_xalloc", 3, allocates(0)),
    tx("pmemobj_tx_realloc", 4, allocates(2)),
    tx("pmemobj_tx_zrealloc", 4, allocates(2)),
    tx("pmemobj_tx_strdup", 2, COPIES),
    tx("pmemobj_tx_xstrdup", 3, COPIES),
    tx("pmemobj_tx_wcsdup", 2, COPIES),
    tx("pmemobj_tx_xwcsdup", 3, COPIES),
    tx("pmemobj_tx_free", 2, TxFunction::Other),
    tx("pmemobj_tx_xfree", 3, TxFunction::Other),
    tx("pmemobj_tx_publish", 2, TxFunction::Other),
    tx("pmemobj_tx_xpublish", 3, TxFunction::Other),
    tx("pmemobj_reserve", 3, TxFunction::Reserve),
    tx("pmemobj_xreserve", 3, TxFunction::Reserve),
    // The `join` of C++ and Rust threads calls `pthread_join`.
    joins("pthread_join"),
    joins("pthread_tryjoin_np"),
    joins("pthread_timedjoin_np"),
    joins("pthread_clockjoin_np"),
    joins("thrd_join"),
    // A C library calls `exit` itself when `main` returns.
    leaves("exit"),
    leaves("_exit"),
    leaves("_Exit"),
    leaves("quick_exit"),
    leaves("pthread_exit"),
    leaves("thrd_exit"),
];

/// The function with this name, if it is in the table.
pub fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_is_listed_once_with_at_most_six_arguments() {
        for (index, row) in FUNCTIONS.iter().enumerate() {
            assert_eq!(function(row.name), Some(row), "row {index}");
            assert!(row.arguments <= 6, "{}", row.name);
        }
        assert_eq!(function("pmemobj_persist"), None);
        assert_eq!(function("main"), None);
    }
}
