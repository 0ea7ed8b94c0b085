//! `delayed-persist`: a store became persistent only after a fence of its thread had made a later store persistent.
//!
//! pmemcheck does not see this: at the end everything is persisted, because another flush of the line followed. In between,
//! a crash keeps the later store and loses this one. The later store counts only if a fence of the
//! storing thread guaranteed it: the order of the stores of one fence is open anyway
//! (`fence-orders-many`). Stores persisted by `clflush`, which needs no fence, count from the
//! thread's next fence on, so that flushing a range line by line is not reported.
//!
//! Can miss: later stores by other threads; programs that use `clflush` and never fence. Never reports stores to bytes that a
//! running transaction has logged, nor the stores a library makes for its own purposes.

use brownout_model::{LiveStore, PmAddress};
use brownout_report::{Category, Mistake, RuleInfo, RulePolicy, RuleRepair, Severity, TriedLoss};

use crate::follower::thread::ThreadState;
use crate::rule::Rule;
use crate::rule_inputs::{ByteCounts, GuaranteedStore, StoreTag, file};
use crate::tally::{Key, Message, Occurrence, Tally};

#[derive(Default)]
pub(crate) struct DelayedPersist;

impl Rule for DelayedPersist {
    const INFO: &'static RuleInfo = &RuleInfo {
        id: "delayed-persist",
        severity: Severity::Warning,
        category: Category::Ordering,
        pedantic: false,
        policy: RulePolicy {
            mistake: Mistake::UnpersistedStore { clarity: 3 },
            tried: Some(TriedLoss::Stores { forever: false }),
            is_implied_by_pointer: true,
            repair: RuleRepair::FlushBeforeLaterStore,
        },
        summary: "a later store became persistent before this one",
        explanation: "\
## What it does

Reports stores that become persistent only after a fence of the same thread has already made a later
store persistent.

## Why is this bad?

Between the two fences a crash keeps the later store and may lose the earlier one. If the later store announces
the earlier one (a valid flag, a pointer, a count), recovery trusts it and reads garbage. Tools that
look only at the end of the run do not detect this, since the line is flushed eventually.

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

    #[inline(always)]
    fn guaranteed(&mut self, guaranteed: &GuaranteedStore<'_>, found: &mut Tally) {
        let (store, thread) = (guaranteed.store, guaranteed.thread);
        if store.time.0 < thread.persisted.time && !store.tag.exempt {
            report(guaranteed.line.address(), store, thread, found);
        }
    }
}

/// `thread`, which made the store, has persisted a later store before this one is guaranteed.
///
/// Takes the parts of the input, so that the caller need not put it into memory for each store.
#[inline(never)]
fn report(line: PmAddress, store: &LiveStore<StoreTag>, thread: &ThreadState, found: &mut Tally) {
    let later = thread.persisted;
    let (fence, fence_time) = thread.persisted_by;
    let key = Key::pair(store.tag.site, later.site, file(line));
    let counts = (1, ByteCounts::of(store.bytes));
    found.add_sized(key, counts, store.time.0, || Occurrence {
        message: Message::OfBytes(Box::new(|bytes| {
            format!(
                "{bytes} stored here {} persistent only after a later store; a crash in between keeps only the later one",
                bytes.be()
            )
        })),
        sites: vec![
            ("store", store.tag.site, store.time.0),
            ("later store", later.site, later.time),
            ("fence", fence, fence_time),
        ],
        bytes: vec![(line, store.bytes)],
        values: vec![store.tag.value("stored")],
        unfenced_since: vec![store.tag.unfenced_since(store.thread, store.time.0)],
    });
}
