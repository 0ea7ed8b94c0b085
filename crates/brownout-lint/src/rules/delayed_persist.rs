//! `delayed-persist`: a store became persistent only after a fence of its thread had made a later store persistent.
//!
//! What pmemcheck hides: at the end all is persisted, because another flush of the line came by. In between,
//! a crash keeps the later store and loses this one. The later store counts only if a fence of the
//! storing thread guaranteed it: within the stores of one fence the order is open anyway
//! (`fence-orders-many`). Stores persisted by `clflush`, which needs no fence, count from the
//! thread's next fence on, so that flushing a range line by line is not reported.
//!
//! Can miss: later stores by other threads; programs that use `clflush` and never fence. Never reports stores to bytes that a
//! running transaction has logged, nor by reason of what a library stores for itself.

use brownout_model::{LiveStore, PmAddress};
use brownout_report::{Category, RuleInfo, Severity};

use crate::follower::thread::ThreadState;
use crate::rule_inputs::{StoreTag, be, bytes_text, file};
use crate::tally::{Key, Occurrence, Tally};

pub(crate) const INFO: RuleInfo = RuleInfo {
    id: "delayed-persist",
    severity: Severity::Warning,
    category: Category::Ordering,
    summary: "a later store became persistent before this one",
    explanation: "\
## What it does

Finds stores that become persistent, but only after a fence of the same thread has already made a later
store persistent.

## Why is this bad?

Between the two fences a crash keeps the later store and may lose the earlier one. If the later one says that
the earlier one is there (a valid flag, a pointer, a count), recovery finds it and reads garbage. Tools that
look only at the end of the run see nothing, since the line is flushed in time.

## Example

```c
node->value = 7;
list->head = node;
pmem_persist(&list->head, sizeof list->head);
pmem_persist(node, sizeof *node);           /* too late */
```

## Fix

Persist in the order in which recovery relies on the data:

```c
node->value = 7;
pmem_persist(node, sizeof *node);
list->head = node;
pmem_persist(&list->head, sizeof list->head);
```

If nothing relies on that order, suppress the finding with the reason.
",
};

pub(crate) struct DelayedPersist(pub(crate) Tally);

impl DelayedPersist {
    /// A store is guaranteed from `now` on; its thread has persisted a later one before.
    #[inline(never)]
    pub(crate) fn guaranteed(
        &mut self,
        line: PmAddress,
        store: &LiveStore<StoreTag>,
        now: u64,
        thread: &ThreadState,
    ) {
        let later = thread.persisted;
        let (fence, fence_time) = thread.persisted_by;
        let key = Key::pair(store.tag.site, later.site, file(line));
        self.0.add(key, store.time.0, || Occurrence {
            message: format!(
                "{} stored here {} persistent from event {now} on, a later store from event {fence_time} on",
                bytes_text(store.bytes),
                be(store.bytes)
            ),
            places: vec![
                ("store", store.tag.site, store.time.0),
                ("later store", later.site, later.time),
                ("fence", fence, fence_time),
            ],
            bytes: vec![(line, store.bytes)],
            values: vec![store.tag.value("stored")],
        });
    }
}
