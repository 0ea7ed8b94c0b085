//! Watched functions, whose calls are recorded: those that the caller asks for, and those that join threads.

use brownout_libraries::{Function, LockFunction, LockOrder, Purpose, TxFunction};
use brownout_ring::watch::Order;
use brownout_ring::{WATCH_BYTES, watch};
use std::borrow::Cow;
use std::collections::HashSet;

/// A function whose calls are recorded in every module of the target that has a symbol with its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WatchedFunction {
    /// The name in the symbol table. For C++ and Rust this is the mangled name.
    pub name: Cow<'static, str>,
    /// The number of arguments in integer registers to record, at most six.
    pub arguments: u8,
}

/// Why a list of functions cannot be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    #[error("cannot watch the function '{name}': its name is {}", if name.is_empty() { "empty" } else { "too long" })]
    Name { name: String },
    #[error("too many functions to watch: their names take more than {WATCH_BYTES} bytes")]
    TooMany,
}

impl WatchedFunction {
    /// Watches a function with as many arguments as can be recorded.
    pub fn named(name: impl Into<Cow<'static, str>>) -> Self {
        WatchedFunction {
            name: name.into(),
            arguments: watch::MAX_ARGUMENTS,
        }
    }
}

/// The table that is written to the wire. A function's number is its index in the table.
///
/// It holds the functions that were asked for, and after them those that join threads, whose calls become
/// [`ThreadJoin`](brownout_trace::EventKind::ThreadJoin) events.
pub(crate) struct WatchTable {
    pub(crate) bytes: Vec<u8>,
    /// The functions whose calls and returns become events, in the order of their numbers.
    pub(crate) names: Vec<String>,
    /// For each function, by number, whether it joins threads.
    pub(crate) joins: Vec<bool>,
}

impl WatchTable {
    /// Builds the table. If a function is listed twice, the first entry counts.
    pub(crate) fn of(functions: &[WatchedFunction]) -> Result<WatchTable, WatchError> {
        let mut table = WatchTable {
            bytes: Vec::new(),
            names: Vec::new(),
            joins: Vec::new(),
        };
        let mut known = HashSet::new();
        for WatchedFunction { name, arguments } in functions {
            if known.insert(&**name) {
                table.push(name, *arguments)?;
                table.names.push(name.to_string());
            }
        }
        for function in brownout_libraries::functions().filter(|function| joins(function)) {
            if known.insert(function.name) {
                table.push(function.name, function.arguments)?;
            }
        }
        if table.bytes.len() > WATCH_BYTES {
            return Err(WatchError::TooMany);
        }
        Ok(table)
    }

    fn push(&mut self, name: &str, arguments: u8) -> Result<(), WatchError> {
        let is_join = brownout_libraries::function(name).is_some_and(joins);
        // The first argument identifies the thread that is joined.
        let arguments = arguments.max(u8::from(is_join));
        let unusable = || WatchError::Name {
            name: name.to_owned(),
        };
        let head = watch::head(arguments, order(name), name).ok_or_else(unusable)?;
        self.bytes.extend(head);
        self.bytes.extend(name.as_bytes());
        self.joins.push(is_join);
        Ok(())
    }
}

/// What a call of a function means for the order of threads, as far as that is certain.
fn order(name: &str) -> Order {
    let Some(function) = brownout_libraries::function(name) else {
        return Order::Unknown;
    };
    match function.purpose {
        // The locks that they acquire are acquired by functions of the C library.
        // Programs ask for the root object all the time.
        Purpose::Transaction(TxFunction::Root) => Order::Query,
        Purpose::Transaction(_) | Purpose::CreatePool | Purpose::Leave => Order::None,
        // The wire has locks that are the first argument.
        Purpose::Lock {
            function,
            lock,
            order,
            ..
        } => match (order, function) {
            (LockOrder::ByCLibrary, _) => Order::None,
            (LockOrder::Certain, LockFunction::Exclusive) if lock == 0 => Order::Acquires,
            (LockOrder::Certain, LockFunction::Release) if lock == 0 => Order::Releases,
            _ => Order::Unknown,
        },
        _ => Order::Unknown,
    }
}

fn joins(function: &Function) -> bool {
    function.purpose == Purpose::ThreadJoin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_reads_the_table_that_was_written() {
        let functions = [
            WatchedFunction::named("begin"),
            WatchedFunction {
                name: "end".into(),
                arguments: 0,
            },
            WatchedFunction::named("end"),
        ];
        let mut table = WatchTable::of(&functions).unwrap();
        assert_eq!(table.names, ["begin", "end"]);
        table.bytes.resize(WATCH_BYTES, 0);
        let entries = watch::entries(&table.bytes);
        let read: Vec<(u8, &[u8])> = entries.map(|entry| (entry.arguments, entry.name)).collect();
        assert_eq!(read[..2], [(6, &b"begin"[..]), (0, b"end")]);
        assert_eq!(read[2], (1, &b"pthread_join"[..]));
        assert_eq!(table.joins[..3], [false, false, true]);
    }

    #[test]
    fn a_join_function_that_is_asked_for_is_listed_once() {
        let functions = [WatchedFunction {
            name: "pthread_join".into(),
            arguments: 0,
        }];
        let mut table = WatchTable::of(&functions).unwrap();
        assert_eq!(table.names, ["pthread_join"]);
        table.bytes.resize(WATCH_BYTES, 0);
        let is_join = |entry: &watch::Entry<'_>| entry.name == b"pthread_join";
        let joins: Vec<_> = watch::entries(&table.bytes).filter(is_join).collect();
        assert_eq!(joins.len(), 1);
        assert_eq!((joins[0].arguments, joins[0].order), (1, Order::Unknown));
        assert!(table.joins.iter().all(|&is_join| is_join));
    }

    #[test]
    fn what_is_certain_of_the_order_of_threads_is_in_the_table() {
        assert_eq!(order("pthread_mutex_lock"), Order::Acquires);
        assert_eq!(order("pthread_mutex_unlock"), Order::Releases);
        assert_eq!(order("pthread_mutex_trylock"), Order::Unknown);
        assert_eq!(order("pthread_rwlock_wrlock"), Order::Unknown);
        assert_eq!(order("pmemobj_tx_commit"), Order::None);
        assert_eq!(order("pmemobj_root_construct"), Order::Query);
        assert_eq!(order("pmemobj_mutex_lock"), Order::None);
        assert_eq!(order("pmemobj_mutex_unlock"), Order::None);
        assert_eq!(order("pmemobj_mutex_trylock"), Order::Unknown);
        assert_eq!(order("a_function_of_the_user"), Order::Unknown);
    }

    #[test]
    fn names_that_do_not_fit_are_rejected() {
        let named = |len: usize| WatchTable::of(&[WatchedFunction::named("x".repeat(len))]);
        assert!(matches!(named(0), Err(WatchError::Name { .. })));
        assert!(matches!(named(5000), Err(WatchError::Name { .. })));
        assert!(named(4000).is_ok());
        let many: Vec<_> = (0..20)
            .map(|n| WatchedFunction::named(format!("{n:04000}")))
            .collect();
        assert!(matches!(WatchTable::of(&many), Err(WatchError::TooMany)));
    }
}
