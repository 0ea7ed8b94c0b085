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
        /// When a call that acquires the lock has acquired it.
        acquired: Acquired,
        /// What a call means for the order of threads, whatever it returns.
        order: LockOrder,
    },
    /// It orders what threads do without being a lock.
    Order {
        /// How it does that.
        function: OrderFunction,
        /// The index of the argument that is the address of the object that the threads share.
        object: u8,
    },
    /// It allocates persistent memory outside of transactions.
    Allocate {
        /// The size of the memory.
        size: AllocatedSize,
        /// How the caller learns where the memory is.
        result: AllocationResult,
    },
    /// It frees persistent memory outside of transactions.
    Free(FreedObject),
    /// It waits for the end of the thread that its first argument identifies, and returns 0 if the thread has ended.
    ThreadJoin,
    /// It sends data out of the process, to the descriptor that is its first argument.
    Output,
    /// It ends the process or the calling thread, and does not return. What the C library executes from here on is not
    /// the target's doing.
    Leave,
}

/// What a function does to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockFunction {
    /// Acquires it for the calling thread alone.
    Exclusive,
    /// Acquires it together with others that only read.
    Shared,
    /// Releases it.
    Release,
    /// Releases it, waits for the condition that the argument before it identifies, and acquires it again, whatever it returns.
    Wait,
}

/// Whether a call of a function orders threads, as far as that is certain before its result is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockOrder {
    /// It does: the lock has one holder, and the call acquires or releases it unless the program is wrong.
    Certain,
    /// It calls a function of the C library that does.
    ByCLibrary,
    /// It may fail, or others may hold the lock, too.
    Uncertain,
}

/// Which results of a function mean that it has acquired a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Acquired {
    /// 0, and the error with which a robust mutex is acquired from a thread that has died.
    IfZero,
    /// Any but 0, in the lowest byte: a `bool` of C++.
    IfTrue,
    /// All: it returns when it has acquired the lock.
    Always,
}

/// `EOWNERDEAD` of Linux.
const OWNER_DEAD: u32 = 130;

impl Acquired {
    /// Whether a call that returned `value` has acquired the lock.
    pub fn by(self, value: u64) -> bool {
        match self {
            Acquired::IfZero => matches!(value as u32, 0 | OWNER_DEAD),
            Acquired::IfTrue => value as u8 != 0,
            Acquired::Always => true,
        }
    }
}

/// What the arguments of an allocation say about its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AllocatedSize {
    /// The argument with this index is the size.
    Argument(u8),
    /// The arguments with these indices are the number of objects and the size of each.
    Product(u8, u8),
    /// Always the same.
    Bytes(u64),
    /// Nothing.
    Unknown,
}

/// What the arguments of a call say about the object that it frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FreedObject {
    /// The argument with this index is its address.
    Address(u8),
    /// The argument with this index is its offset in the pool that is the first argument.
    Offset(u8),
    /// Its identifier is where the argument with this index points to.
    Identified(u8),
}

/// How an allocation is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AllocationResult {
    /// Its address is the result.
    Address,
    /// Its identifier is stored where the argument with this index points to.
    Identifier(u8),
}

/// How a function that is no lock orders what threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OrderFunction {
    /// Waits until a semaphore is above 0, and decrements it if it returns 0.
    SemaphoreWait,
    /// Increments a semaphore.
    SemaphorePost,
    /// Initialises a semaphore with the value that is the argument after the next one.
    SemaphoreInit,
    /// Opens a semaphore with a name, and returns its address. The object is the initial value, if it is created.
    SemaphoreOpen,
    /// Waits until all threads of a barrier have called it.
    Barrier,
    /// Calls an initialiser, unless a thread has done that before.
    Once,
    /// Waits until no other thread initialises a static variable of C++, and returns 0 if one has done so.
    GuardAcquire,
    /// A static variable of C++ is initialised.
    GuardRelease,
    /// Wakes threads that wait for a condition.
    Signal,
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
        let wait = Purpose::Lock {
            function: LockFunction::Wait,
            lock: 2,
            acquired: Acquired::Always,
            order: LockOrder::Uncertain,
        };
        assert_eq!(purpose("pmemobj_cond_wait"), wait);
        for row in functions() {
            match row.purpose {
                Purpose::Lock { lock, function, .. } => {
                    assert!(lock < row.arguments, "{}", row.name);
                    let has_condition = function != LockFunction::Wait || lock > 0;
                    assert!(has_condition, "{}", row.name);
                }
                Purpose::Order { object, .. } => assert!(object < row.arguments, "{}", row.name),
                _ => {}
            }
        }
    }

    #[test]
    fn results_say_whether_a_lock_was_acquired() {
        const BUSY: u64 = 16;
        let acquired = |name, value| match function(name).map(|row| row.purpose) {
            Some(Purpose::Lock { acquired, .. }) => acquired.by(value),
            other => panic!("{name}: {other:?}"),
        };
        assert!(acquired("pthread_mutex_trylock", 0));
        assert!(!acquired("pthread_mutex_trylock", BUSY));
        assert!(acquired("pthread_mutex_lock", u64::from(OWNER_DEAD)));
        let by_writer = "_ZN3tbb16spin_rw_mutex_v327internal_try_acquire_writerEv";
        assert!(acquired(by_writer, 0xff01));
        assert!(!acquired(by_writer, 0xff00));
        let by_reader = "_ZN3tbb16spin_rw_mutex_v323internal_acquire_readerEv";
        assert!(acquired(by_reader, 0));
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
