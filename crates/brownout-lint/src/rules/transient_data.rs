//! `transient-data`: stored to persistent memory, in a line that the whole run never flushes.
//!
//! Mumak §4.2: whether the flush is missing or the data is in the wrong kind of memory, only the author
//! knows; that nobody ever flushes the line speaks for the latter. Judged at the same moments as
//! `missing-flush`, with the same exceptions.

use brownout_report::{Category, RuleInfo, Severity};

use crate::rule_inputs::{Lost, LostStore, be, bytes_text};
use crate::tally::{Key, Occurrence, Tally};

pub(crate) const INFO: RuleInfo = RuleInfo {
    id: "transient-data",
    severity: Severity::Warning,
    category: Category::Durability,
    summary: "data is stored to persistent memory and its cache line is never flushed",
    explanation: "\
## What it does

Finds stores to persistent memory whose cache line is never flushed or written back in the whole run.

## Why is this bad?

Either the data must survive a crash, and its flush is missing everywhere, or it need not, and takes up slow and
scarce memory (locks, caches, counters of statistics). After a restart its content is whatever happened
to reach the medium.

## Example

```c
struct pool { pthread_mutex_t lock; uint64_t hits; char pad[…]; struct item items[N]; };
pool->hits++;               /* never flushed */
```

## Fix

Flush the data where it is stored, or move it to volatile memory. If it is meant to be there and is reset at
every start, suppress the finding with that reason.
",
};

pub(crate) struct TransientData(pub(crate) Tally);

impl TransientData {
    pub(crate) fn lost(&mut self, lost: &LostStore) {
        if lost.why != Lost::NeverFlushed {
            return;
        }
        let key = Key::single(lost.tag.site, Some(lost.file()));
        self.0.add_many(key, lost.count, lost.time, || Occurrence {
            message: format!(
                "{} {} stored here in a cache line that is never flushed",
                bytes_text(lost.bytes),
                be(lost.bytes)
            ),
            places: vec![("store", lost.tag.site, lost.time)],
            bytes: vec![(lost.line, lost.bytes)],
            values: vec![lost.tag.value("stored")],
        });
    }
}
