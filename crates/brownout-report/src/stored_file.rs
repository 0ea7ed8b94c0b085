//! How much of what the target stored to a file is ever guaranteed: a target that flushes almost nothing has few sites to
//! report, and its findings alone would look harmless.

use serde::{Deserialize, Serialize};

/// The smallest number and share of stores that are worth a sentence. Fewer are described by their findings.
const FEW: u64 = 10;
const SMALL_SHARE: u64 = 10;

/// A persistent file, and the stores to it. A store counts once for each cache line that it touches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFile {
    pub path: String,
    /// All stores.
    pub stores: u64,
    /// Stores of the target's own code that no flush, fence or system call ever guarantees.
    pub never_guaranteed: u64,
}

impl StoredFile {
    /// A sentence on the stores that a crash can lose at any time, if they are a notable share of all. `shown` is the path
    /// as people see it.
    pub fn weight(&self, shown: &str) -> Option<String> {
        let Self {
            stores,
            never_guaranteed: lost,
            ..
        } = *self;
        let notable = lost >= FEW && lost.saturating_mul(SMALL_SHARE) >= stores;
        notable.then(|| {
            format!(
                "{lost} of {stores} stores to `{shown}` are never guaranteed to be durable: a crash can lose them at any time"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(never_guaranteed: u64, stores: u64) -> Option<String> {
        let file = StoredFile {
            path: "/mnt/pool".to_owned(),
            stores,
            never_guaranteed,
        };
        file.weight("pool")
    }

    #[test]
    fn a_file_that_is_hardly_ever_flushed_is_worth_a_sentence() {
        assert_eq!(
            weight(407_102, 407_609).unwrap(),
            "407102 of 407609 stores to `pool` are never guaranteed to be durable: a crash can lose them at any time"
        );
        assert!(weight(10, 100).is_some());
    }

    #[test]
    fn few_lost_stores_are_described_by_their_findings() {
        for (lost, stores) in [(0, 0), (0, 1000), (9, 9), (99, 1000)] {
            assert_eq!(weight(lost, stores), None);
        }
    }
}
