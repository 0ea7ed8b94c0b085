//! `tx-unlogged-store`: a transaction changes bytes that are not in its log.
//!
//! pmemcheck's "stores made without adding to transaction", without annotations; Agamotto §2.4.2.2 (atomic operation
//! oracle) for all objects at once. A store counts if the user's code makes it to the pool while the thread's transaction
//! is running, before the bytes are added: bytes added later are logged with their new value. It is judged when
//! the outermost transaction is committed or aborted. The rules for single stores do not report the same store
//! again: that it is lost, late or overwritten has the same cause.
//!
//! Never reports: what the library stores for itself; stores to objects that the transaction has allocated, or that
//! were reserved for publication; stores whose line the program flushes or writes back itself before the
//! transaction ends, or that are non-temporal (it persists them on purpose, as with counters of attempts or with
//! data that only becomes reachable later); locks, that is, what the C library's lock functions store, locked
//! instructions, and stores to words that these have changed in the transaction; anything after a call of the library
//! that failed.
//!
//! Can miss: stores that happen to share a line with one that the program flushes; stores to parts of a pool set other
//! than the first; transactions during which the process forked; statically linked programs without
//! symbols. Fields that may be lost in a crash, and are neither locks nor flushed, have to be
//! suppressed.
//!
//! Findings are related if their stores went to one object in one transaction: one entry in the log would have covered them. Where an
//! object is not known, bytes in one cache line or bytes that touch count as one.

use std::hash::{Hash as _, Hasher as _};

use brownout_report::{Category, RuleInfo, RulePolicy, RuleRepair, Severity};
use rustc_hash::{FxHashSet, FxHasher};

use crate::raw_finding::RawValue;
use crate::rule::Rule;
use crate::rule_inputs::{ByteCounts, TransactionEnd, file};
use crate::site_keys::SiteKey;
use crate::tally::{Key, Message, Occurrence, Tally};
use crate::transactions::UnloggedStore;

/// Each site is related to so many others of an object at most, so that time and memory stay proportional to their number.
const MOST_RELATED: usize = 32;

#[derive(Default)]
pub(crate) struct TxUnloggedStore {
    /// Hashes of the sets of sites that were related: a mistake is often repeated in each transaction.
    related: FxHashSet<u64>,
}

impl Rule for TxUnloggedStore {
    const INFO: &'static RuleInfo = &RuleInfo {
        id: "tx-unlogged-store",
        severity: Severity::Bug,
        category: Category::Atomicity,
        pedantic: false,
        policy: RulePolicy {
            repair: RuleRepair::LogEntry,
            ..RulePolicy::NONE
        },
        summary: "a transaction changes data that is not in its log",
        explanation: "\
## What it does

Reports stores in a libpmemobj transaction to bytes of the pool that were not added to the transaction before
(`pmemobj_tx_add_range`, `TX_ADD`, `TX_SET`, ...), are not part of an object that it has allocated, and are
not persisted by the program itself before the transaction ends.

## Why is this bad?

If the transaction is aborted, or the program crashes in it, all logged changes are undone and this one
may remain. If it is committed, only logged ranges are flushed, so this change may be lost. Either way
the transaction is not atomic.

## Example

```c
TX_BEGIN(pop) {
    TX_ADD_FIELD(root, list);
    D_RW(root)->list = node;
    D_RW(root)->count++;            /* not added */
} TX_END
```

## Fix

Add the range before changing it:

```c
TX_BEGIN(pop) {
    TX_ADD_FIELD(root, list);
    D_RW(root)->list = node;
    TX_ADD_FIELD(root, count);
    D_RW(root)->count++;
} TX_END
```
",
    };

    fn transaction_end(&mut self, end: &TransactionEnd, found: &mut Tally) {
        for store in &end.unlogged {
            let key = Key::single(store.site, Some(file(store.line)));
            let counts = (1, ByteCounts::of(store.bytes));
            found.add_sized(key, counts, store.time, || {
                let mut sites = vec![("store", store.site, store.time)];
                sites.extend(end.begun.map(|(site, time)| ("transaction", site, time)));
                Occurrence {
                    message: Message::OfBytes(Box::new(|bytes| {
                        let be = bytes.be();
                        format!("{bytes} stored in a transaction {be} not in its log")
                    })),
                    sites,
                    bytes: vec![(store.line, store.bytes)],
                    values: vec![RawValue {
                        name: "stored",
                        bytes: store.value.to_le_bytes()[..usize::from(store.len)].to_vec(),
                        len: store.bytes.0.count_ones().into(),
                    }],
                    ..Occurrence::default()
                }
            });
        }
        if end.unlogged.len() > 1 {
            let mut stores: Vec<&UnloggedStore> = end.unlogged.iter().collect();
            stores.sort_by_key(|store| store.start());
            for object in stores.chunk_by(|one, next| are_in_one_object(one, next)) {
                self.relate(object.iter().map(|store| store.site).collect(), found);
            }
        }
    }
}

impl TxUnloggedStore {
    /// The stores at these sites were made to one object in one transaction.
    fn relate(&mut self, mut sites: Vec<SiteKey>, found: &mut Tally) {
        sites.sort_unstable();
        sites.dedup();
        let mut hash = FxHasher::default();
        sites.hash(&mut hash);
        if sites.len() < 2 || !self.related.insert(hash.finish()) {
            return;
        }
        for (position, &one) in sites.iter().enumerate() {
            let others = sites[position + 1..].iter().take(MOST_RELATED);
            others.for_each(|&other| found.relate(one, other));
        }
    }
}

/// Whether two stores, of which the second does not begin before the first, belong to one object.
fn are_in_one_object(one: &UnloggedStore, next: &UnloggedStore) -> bool {
    let is_near = || one.line == next.line || next.start().offset <= one.end();
    one.line.space == next.line.space
        && one.object == next.object
        && (one.object.is_some() || is_near())
}
