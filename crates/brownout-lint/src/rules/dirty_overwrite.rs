//! `dirty-overwrite`: bytes are stored to again before the first store was guaranteed, and only the second is
//! persisted.
//!
//! pmemcheck ("overwritten stores"). Reported when the overwriting store is guaranteed. If it never is,
//! `missing-flush` or `transient-data` reports all of the stores, and this rule none.
//!
//! Never reports: storing the same value again (as far as the first eight bytes of each store show); one copy in
//! overlapping pieces; the stores of a library; bytes that a running transaction has logged, where only the last
//! value counts; stores that persist by writing back pages (`msync`), where a page is built up in place and
//! only its final content matters. Can miss: long stores that look like pieces of a copy and differ only in bytes that are
//! not recorded; pairs of stores beyond a limit on the same bytes.

use brownout_report::{Category, Mistake, RuleInfo, RulePolicy, RuleRepair, Severity, TriedLoss};

use crate::follower::overwrites::Overwriting;
use crate::rule::Rule;
use crate::rule_inputs::{ByteCounts, file};
use crate::tally::{Key, Message, Occurrence, Tally};

#[derive(Default)]
pub(crate) struct DirtyOverwrite;

impl Rule for DirtyOverwrite {
    const INFO: &'static RuleInfo = &RuleInfo {
        id: "dirty-overwrite",
        severity: Severity::Warning,
        category: Category::Ordering,
        pedantic: true,
        policy: RulePolicy {
            mistake: Mistake::UnpersistedStore { clarity: 4 },
            tried: Some(TriedLoss::Stores { forever: false }),
            repair: RuleRepair::ByHand(
                "the bytes were stored twice before they were persistent, which may be intentional; persist the first store by hand \
                 if recovery needs it",
            ),
            ..RulePolicy::NONE
        },
        summary: "a store is overwritten before it was persistent",
        explanation: "\
## What it does

Reports stores to persistent memory that are overwritten, in whole or in part, before they are flushed and
fenced, so that only the overwritten form becomes persistent.

## Why is this bad?

If the first value matters (a state that recovery looks for, a length that guards data), a crash may never
show it, or show it although the program has moved on: the cache decides. If
it does not matter, the first store is wasted work.

## Example

```c
log->state = PREPARED;
log->state = COMMITTED;     /* PREPARED may never be seen */
pmem_persist(&log->state, sizeof log->state);
```

## Fix

Persist the first value before storing the second, or do not store it. Clearing a structure with `memset` and
then filling it is harmless; fill it in volatile memory and copy it, or suppress the finding.
",
    };

    fn overwrite_guaranteed(&mut self, over: &Overwriting, found: &mut Tally) {
        let key = Key::pair(over.older, over.newer, file(over.line));
        let counts = (over.count, ByteCounts::of(over.bytes));
        found.add_sized(key, counts, over.newer_time, || Occurrence {
            message: Message::OfBytes(Box::new(|bytes| {
                let be = bytes.be();
                format!("{bytes} stored here {be} overwritten before being persistent")
            })),
            sites: vec![
                ("store", over.older, over.older_time),
                ("overwrite", over.newer, over.newer_time),
            ],
            bytes: vec![(over.line, over.bytes)],
            values: vec![
                over.older_value.value("stored"),
                over.newer_value.value("overwritten by"),
            ],
            unfenced_since: vec![
                over.older_value
                    .unfenced_since(over.older_thread, over.older_time),
            ],
        });
    }
}
