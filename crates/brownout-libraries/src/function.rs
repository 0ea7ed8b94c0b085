//! Functions whose calls have a meaning for an analysis, and can be watched.
//!
//! An analysis selects its functions by [`Purpose`]. To add functions with another purpose, add a variant here and rows
//! to the [table](crate::LIBRARIES); nothing else has to change.

use crate::table::LIBRARIES;
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
    /// It creates the pool whose path is its first argument. A crash before it returns may leave a pool that cannot be
    /// opened.
    CreatePool,
    /// It acquires or releases a lock.
    Lock {
        /// What it does to the lock.
        function: LockFunction,
        /// The index of the argument that is the address of the lock.
        lock: u8,
    },
    /// It waits for the end of the thread that its first argument identifies, and returns 0 if the thread has ended.
    ThreadJoin,
    /// It ends the process or the calling thread, and does not return. What the C library executes from here on is not
    /// the target's doing.
    Leave,
}

/// What a function does to a lock. A function that acquires one has acquired it if it returns 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockFunction {
    /// Acquires it for the calling thread alone.
    Exclusive,
    /// Acquires it together with others that only read.
    Shared,
    /// Releases it.
    Release,
    /// Releases it, waits for a condition, and acquires it again, whatever it returns.
    Wait,
}

/// All known functions.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    LIBRARIES.iter().flat_map(|library| library.functions)
}

/// The function with this name, if it is in the table.
pub fn function(name: &str) -> Option<&'static Function> {
    functions().find(|function| function.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_is_listed_once_with_at_most_six_arguments() {
        for row in functions() {
            assert_eq!(function(row.name), Some(row));
            assert!(row.arguments <= 6, "{}", row.name);
        }
        assert_eq!(function("pmemobj_persist"), None);
        assert_eq!(function("main"), None);
    }

    #[test]
    fn the_address_of_a_lock_is_among_the_recorded_arguments() {
        let purpose = |name| function(name).unwrap().purpose;
        let wait = LockFunction::Wait;
        assert_eq!(
            purpose("pmemobj_cond_wait"),
            Purpose::Lock {
                function: wait,
                lock: 2
            }
        );
        for row in functions() {
            if let Purpose::Lock { lock, .. } = row.purpose {
                assert!(lock < row.arguments, "{}", row.name);
            }
        }
    }

    #[test]
    fn every_library_with_pools_has_a_function_that_creates_them() {
        for prefix in ["pmemobj_", "pmemblk_", "pmemlog_"] {
            let name = format!("{prefix}create");
            let created = function(&name).map(|function| function.purpose);
            assert_eq!(created, Some(Purpose::CreatePool), "{name}");
        }
    }
}
