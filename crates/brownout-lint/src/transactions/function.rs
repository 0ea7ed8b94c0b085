//! The functions that the rules look at: those of libpmemobj that begin, end and fill transactions, and those that end a
//! thread or the process.

use brownout_libraries::{Function, Purpose, TxFunction};
use brownout_trace::{Definitions, FunctionId};

/// The functions whose calls the rules need in the trace.
///
/// `pmemobj_tx_process` is understood but not needed: it is called several times in each transaction, and commits by
/// calling `pmemobj_tx_commit`.
pub fn watched_functions() -> impl Iterator<Item = &'static Function> {
    let needed = |purpose| match purpose {
        Purpose::Transaction(function) => function != TxFunction::Process,
        Purpose::CreatePool | Purpose::Leave => true,
        _ => false,
    };
    brownout_libraries::functions().filter(move |row| needed(row.purpose))
}

/// What a call of a watched function means to the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallMeaning {
    Transaction(TxFunction),
    /// The thread or the process ends.
    Leave,
}

/// Finds the functions by their numbers in the trace.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    known: Vec<Option<Option<CallMeaning>>>,
}

impl Functions {
    pub(crate) fn get(
        &mut self,
        function: FunctionId,
        definitions: &Definitions,
    ) -> Option<CallMeaning> {
        let index = function.0 as usize;
        if let Some(Some(known)) = self.known.get(index) {
            return *known;
        }
        // A number without a name is not a watched function.
        let found = named(definitions.function(function)?);
        if self.known.len() <= index {
            self.known.resize(index + 1, None);
        }
        self.known[index] = Some(found);
        found
    }
}

fn named(name: &str) -> Option<CallMeaning> {
    match brownout_libraries::function(name)?.purpose {
        Purpose::Transaction(function) => Some(CallMeaning::Transaction(function)),
        Purpose::CreatePool => Some(CallMeaning::Transaction(TxFunction::Pool)),
        Purpose::Leave => Some(CallMeaning::Leave),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_transactions_and_exits_are_watched_and_understood() {
        let watched: Vec<_> = watched_functions().map(|row| row.name).collect();
        assert!(watched.contains(&"pmemobj_tx_commit"));
        assert!(!watched.contains(&"pmemobj_tx_process"));
        assert!(watched.contains(&"exit"));
        assert!(!watched.contains(&"pthread_join"));
        assert_eq!(
            named("pmemobj_tx_process"),
            Some(CallMeaning::Transaction(TxFunction::Process))
        );
        assert_eq!(named("_exit"), Some(CallMeaning::Leave));
        assert_eq!(named("main"), None);
    }
}
