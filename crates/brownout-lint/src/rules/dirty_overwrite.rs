//! `dirty-overwrite`: bytes are stored to again before the first store was guaranteed, and only the second is
//! persisted.
//!
//! pmemcheck ("overwritten stores"). Fires when the store on top is guaranteed: if none ever is, all of
//! them are told by `missing-flush` or `transient-data`, and only there.
//!
//! Never reports storing the same value again (as far as the first eight bytes of each store tell), one copy in
//! pieces that overlap, what a library does, nor bytes that a running transaction has logged: there only the last
//! value counts; nor stores that persist by writing back pages (`msync`), where a page is brought into shape in place and
//! only what it holds in the end is meant. Can miss: long stores that look like such pieces and differ only in what is
//! not known of them, and more than a few pairs of stores that pile up on the same bytes.

use brownout_report::{Category, RuleInfo, Severity};

use crate::follower::overwrites::Overwriting;
use crate::rule_inputs::{be, bytes_text, file};
use crate::tally::{Key, Occurrence, Tally};

pub(crate) const INFO: RuleInfo = RuleInfo {
    id: "dirty-overwrite",
    severity: Severity::Warning,
    category: Category::Ordering,
    summary: "a store is overwritten before it was persistent",
    explanation: "\
## What it does

Finds stores to persistent memory that are overwritten, in whole or in part, before they were flushed and
fenced, and that reach persistence only in their overwritten form.

## Why is this bad?

If the first value mattered (a state that recovery looks for, a length that guards data), a crash never
shows it, or shows it although the program has moved on: the order of the two states is up to the cache. If
it did not matter, the first store is work for nothing.

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

pub(crate) struct DirtyOverwrite(pub(crate) Tally);

impl DirtyOverwrite {
    /// The store on top of an overwritten one is guaranteed.
    pub(crate) fn persisted(&mut self, over: &Overwriting) {
        let key = Key::pair(over.older, over.newer, file(over.line));
        self.0
            .add_many(key, over.count, over.newer_time, || Occurrence {
                message: format!(
                    "{} stored here {} overwritten before being persistent",
                    bytes_text(over.bytes),
                    be(over.bytes)
                ),
                places: vec![
                    ("store", over.older, over.older_time),
                    ("overwrite", over.newer, over.newer_time),
                ],
                bytes: vec![(over.line, over.bytes)],
                values: vec![
                    over.older_value.value("stored"),
                    over.newer_value.value("overwritten by"),
                ],
            });
    }
}
