//! `missing-fence`: flushed, or stored non-temporally, and no fence of that thread ever follows.
//!
//! Agamotto §2.4.2.1 ("missing flush/fence"), pmemcheck ("flushed, not fenced"). Any fence counts, be it
//! after the memory was unmapped, and be it a locked instruction (see `accidental-fence`); so does a flush
//! and fence of the same line by another thread.
//!
//! Can miss: a fence that is missing where a later, unrelated one of the same thread comes by. Never
//! reports `clflush`, which waits for no fence, nor what was in flight when its process was killed.

use brownout_report::{Category, RuleInfo, Severity};

use crate::rule_inputs::{Lost, LostStore, bytes_text};
use crate::site_keys::Known;
use crate::tally::{Key, Occurrence, Tally};

pub(crate) const INFO: RuleInfo = RuleInfo {
    id: "missing-fence",
    severity: Severity::Bug,
    category: Category::Durability,
    summary: "a flush or non-temporal store is never followed by a fence",
    explanation: "\
## What it does

Finds flushes (`clwb`, `clflushopt`) of stored data, and non-temporal stores, after which their thread
executes no `sfence`, `mfence` or locked instruction any more.

## Why is this bad?

`clwb` and `clflushopt` only begin to write a line back, and a non-temporal store waits in a buffer of the
processor. Only a fence waits for them. Without it the program goes on, reports success, unmaps the file, while
the data can still be lost.

## Example

```c
entry->count = 1;
_mm_clwb(&entry->count);
return 0;                   /* nothing waits for the write-back */
```

## Fix

```c
entry->count = 1;
_mm_clwb(&entry->count);
_mm_sfence();
```

With libpmem, call `pmem_drain` after `pmem_flush` and after `pmem_memcpy_nodrain`, or use `pmem_persist`.
",
};

pub(crate) struct MissingFence(pub(crate) Tally);

impl MissingFence {
    pub(crate) fn lost(&mut self, known: &Known, lost: &LostStore) {
        let stored = ("store", lost.tag.site, lost.time);
        let (key, message, places) = match lost.why {
            Lost::FlushNotFenced { flush, time } if known.is_users(flush) => (
                Key::pair(flush, lost.tag.site, lost.file()),
                "no fence ever follows this flush",
                vec![("flush", flush, time), stored],
            ),
            Lost::NotFenced => (
                Key::single(lost.tag.site, Some(lost.file())),
                "no fence ever follows this non-temporal store",
                vec![stored],
            ),
            _ => return,
        };
        self.0.add_many(key, lost.count, lost.time, || Occurrence {
            message: format!("{message}: {} can be lost", bytes_text(lost.bytes)),
            places,
            bytes: vec![(lost.line, lost.bytes)],
            values: vec![lost.tag.value("stored")],
        });
    }
}
