//! `tx-unlogged-store`: a transaction changes bytes that are not in its log.
//!
//! pmemcheck's "stores made without adding to transaction", without annotations; Agamotto §2.4.2.2 (atomic operation
//! oracle) for all objects at once. A store counts if the user's code makes it to the pool while the thread's transaction
//! is at work, before the bytes are added: what is added later is logged with its new value. It is judged when
//! the outermost transaction is committed or aborted. The same store is then not told by the rules for single stores
//! as well: that it is lost, late or overwritten comes of the same forgotten call.
//!
//! Never reports: what the library stores for itself; stores to objects that the transaction has allocated, or that
//! were reserved for publication; stores whose line the program flushes or writes back itself before the
//! transaction ends, or that are non-temporal (it persists them on purpose, as with counters of attempts or with
//! data that only becomes reachable later); locks: what the C library's functions for them store, locked
//! instructions, and stores to words that these have changed in the transaction; anything after a call of the library that failed.
//!
//! Can miss: stores that happen to share a line with one that the program flushes; stores to parts of a pool set other
//! than the first; transactions of which a process forked while they ran; statically linked programs without
//! symbols. Fields that are meant to be lost at a crash, and are neither locks nor flushed, have to be
//! suppressed.

use brownout_report::{Category, RuleInfo, Severity};

use crate::raw_finding::RawValue;
use crate::rule_inputs::{be, bytes_text, file};
use crate::site_keys::SiteId;
use crate::tally::{Key, Occurrence, Tally};
use crate::transactions::UnloggedStore;

pub(crate) const INFO: RuleInfo = RuleInfo {
    id: "tx-unlogged-store",
    severity: Severity::Bug,
    category: Category::Atomicity,
    summary: "a transaction changes data that is not in its log",
    explanation: "\
## What it does

Finds stores in a libpmemobj transaction to bytes of the pool that were not added to the transaction before
(`pmemobj_tx_add_range`, `TX_ADD`, `TX_SET`, ...), are not part of an object that it has allocated, and are
not persisted by the program itself before the transaction ends.

## Why is this bad?

If the transaction is aborted, or the program crashes in it, all logged changes are undone and this one
may stay. If it is committed, only what is logged is flushed, so that this change may be lost. Either way
the data is no longer what the transaction was to guarantee.

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

pub(crate) struct TxUnloggedStore(pub(crate) Tally);

impl TxUnloggedStore {
    /// The transaction that made the store has ended.
    pub(crate) fn ended(&mut self, store: &UnloggedStore, begun: Option<(SiteId, u64)>) {
        let key = Key::single(store.site, Some(file(store.line)));
        self.0.add(key, store.time, || {
            let mut places = vec![("store", store.site, store.time)];
            places.extend(begun.map(|(site, time)| ("transaction", site, time)));
            Occurrence {
                message: format!(
                    "{} stored in a transaction {} not in its log",
                    bytes_text(store.bytes),
                    be(store.bytes)
                ),
                places,
                bytes: vec![(store.line, store.bytes)],
                values: vec![RawValue {
                    name: "stored",
                    bytes: store.value.to_le_bytes()[..usize::from(store.len)].to_vec(),
                }],
            }
        });
    }
}
