//! Which functions work on locks or order threads: those of known libraries, and those that the user names.

use brownout_libraries::{Acquired, Function, LockFunction, OrderFunction, Purpose};
use brownout_names::FunctionPattern;
use brownout_trace::{Definitions, FunctionId};

/// A function of the target that works on a lock (HawkSet §4: "a simple configuration file").
#[derive(Clone, Debug)]
pub struct CustomLock {
    pub function: FunctionPattern,
    pub operation: LockFunction,
    /// The index of the argument that is the address of the lock.
    pub argument: u8,
    /// The results, as 32-bit numbers, with which it has acquired the lock; all if there are none.
    pub success: Vec<u32>,
}

/// The functions of known libraries whose calls have to be in the trace.
pub fn watched_functions() -> impl Iterator<Item = &'static Function> {
    let is_needed = |purpose| {
        matches!(
            purpose,
            Purpose::Lock { .. } | Purpose::Order { .. } | Purpose::Allocate { .. }
        )
    };
    brownout_libraries::functions().filter(move |row| is_needed(row.purpose))
}

/// The index of the argument that is the address of the lock that a function releases, or of the semaphore that it posts.
pub fn released_argument(name: &str, own: &[CustomLock]) -> Option<usize> {
    match meaning(name, own)? {
        SyncMeaning::Lock {
            function: LockFunction::Release,
            argument,
            ..
        }
        | SyncMeaning::Order {
            function: OrderFunction::SemaphorePost,
            argument,
        } => Some(argument),
        _ => None,
    }
}

/// The functions that send data out of the process.
pub fn output_functions() -> impl Iterator<Item = &'static Function> {
    brownout_libraries::functions().filter(|row| row.purpose == Purpose::Output)
}

/// What a call means for the order of threads.
#[derive(Clone, Debug)]
pub(crate) enum SyncMeaning {
    Lock {
        function: LockFunction,
        argument: usize,
        acquired: AcquiredBy,
    },
    Order {
        function: OrderFunction,
        argument: usize,
    },
    /// It sends data out of the process.
    Output,
}

/// With which results a lock is acquired.
#[derive(Clone, Debug)]
pub(crate) enum AcquiredBy {
    Library(Acquired),
    Values(Vec<u32>),
}

impl AcquiredBy {
    pub(crate) fn includes(&self, value: u64) -> bool {
        match self {
            AcquiredBy::Library(acquired) => acquired.by(value),
            AcquiredBy::Values(values) => values.is_empty() || values.contains(&(value as u32)),
        }
    }
}

/// Finds the meaning of functions by their numbers in the trace.
#[derive(Debug, Default)]
pub(crate) struct SyncFunctions {
    custom: Vec<CustomLock>,
    known: Vec<Option<Option<SyncMeaning>>>,
}

impl SyncFunctions {
    pub(crate) fn new(custom: Vec<CustomLock>) -> Self {
        SyncFunctions {
            custom,
            known: Vec::new(),
        }
    }

    pub(crate) fn get(
        &mut self,
        function: FunctionId,
        definitions: &Definitions,
    ) -> Option<&SyncMeaning> {
        let index = function.0 as usize;
        if self.known.len() <= index {
            self.known.resize(index + 1, None);
        }
        if self.known[index].is_none() {
            let found = meaning(definitions.function(function)?, &self.custom);
            self.known[index] = Some(found);
        }
        self.known[index].as_ref()?.as_ref()
    }
}

/// What the user says counts before what is known of libraries.
fn meaning(name: &str, custom: &[CustomLock]) -> Option<SyncMeaning> {
    let mut custom = custom.iter();
    if let Some(lock) = custom.find(|lock| lock.function.matches_symbol(name)) {
        return Some(SyncMeaning::Lock {
            function: lock.operation,
            argument: lock.argument.into(),
            acquired: AcquiredBy::Values(lock.success.clone()),
        });
    }
    match brownout_libraries::function(name)?.purpose {
        Purpose::Lock {
            function,
            lock,
            acquired,
            ..
        } => Some(SyncMeaning::Lock {
            function,
            argument: lock.into(),
            acquired: AcquiredBy::Library(acquired),
        }),
        Purpose::Order { function, object } => Some(SyncMeaning::Order {
            function,
            argument: object.into(),
        }),
        Purpose::Output => Some(SyncMeaning::Output),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_names_is_understood() {
        let own = [CustomLock {
            function: FunctionPattern::new("ticket_try"),
            operation: LockFunction::Exclusive,
            argument: 1,
            success: vec![1, 2],
        }];
        let Some(SyncMeaning::Lock {
            function: LockFunction::Exclusive,
            argument: 1,
            acquired,
        }) = meaning("ticket_try", &own)
        else {
            panic!("not understood");
        };
        assert!(acquired.includes(2) && !acquired.includes(0));
        assert!(meaning("sem_post", &own).is_some());
        assert!(meaning("main", &own).is_none());
    }

    #[test]
    fn locks_are_released_by_functions_of_libraries_and_of_the_user() {
        let own = [CustomLock {
            function: FunctionPattern::new("ticket_unlock"),
            operation: LockFunction::Release,
            argument: 1,
            success: Vec::new(),
        }];
        let released = |name| released_argument(name, &own);
        assert_eq!(released("ticket_unlock"), Some(1));
        assert_eq!(released("pmemobj_mutex_unlock"), Some(1));
        assert_eq!(released("sem_post"), Some(0));
        assert_eq!(released("sem_wait"), None);
        assert_eq!(released("pthread_mutex_lock"), None);
    }

    #[test]
    fn locks_and_what_orders_threads_are_watched() {
        let watched: Vec<&str> = watched_functions().map(|row| row.name).collect();
        for name in [
            "pthread_mutex_lock",
            "pthread_barrier_wait",
            "pmemobj_mutex_lock",
        ] {
            assert!(watched.contains(&name), "{name}");
        }
        assert!(!watched.contains(&"pmemobj_tx_commit"));
    }
}
