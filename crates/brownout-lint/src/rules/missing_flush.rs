//! `missing-flush`: a store that is never made persistent, in a line that is flushed at some other time.
//!
//! Mumak §4.2 ("store instruction that is not explicitly persisted"), Agamotto §2.4.2.1 ("missing
//! flush/fence"). Judged by byte: of a store that was partly written back, the rest counts. A store that was
//! overwritten by one that is never flushed was never flushed either, and is told as well. A store is
//! judged when no process maps its bytes any more, and at the end. Unmapping does not end hope for `fsync`,
//! which writes back what was stored through a mapping that is gone. What the kernel writes to the file
//! through a descriptor is its own business and not judged.
//!
//! Can miss: a store that a flush meant for its neighbour in the line has persisted by chance (see
//! `delayed-persist`); one to bytes that were logged with the wish that the library does not flush them.
//! Never reports what a transaction did that was aborted or killed, nor a store in flight when its
//! process was killed or the recording ended: one without a later fence of its thread; nor what `tx-unlogged-store`
//! tells.

use brownout_report::{Category, RuleInfo, Severity};

use crate::rule_inputs::{Lost, LostStore, be, bytes_text};
use crate::tally::{Key, Occurrence, Tally};

pub(crate) const INFO: RuleInfo = RuleInfo {
    id: "missing-flush",
    severity: Severity::Bug,
    category: Category::Durability,
    summary: "a store is never flushed, though its cache line is at some other time",
    explanation: "\
## What it does

Finds stores to persistent memory whose bytes are never written back from the cache: no `clwb`,
`clflushopt` or `clflush` of their cache line follows, nor `msync` or `fsync`, until the memory is unmapped or
the program ends. The same line is flushed at some other time of the run, so that it does hold data
that is meant to be persistent.

## Why is this bad?

The store may stay in the cache for as long as the cache likes. After a crash or a power failure it may be
lost, although everything that was stored after it, and flushed, is there.

## Example

```c
item->value = 42;
item->valid = 1;
pmem_persist(&item->valid, sizeof item->valid);   /* value may be in another line */
```

## Fix

```c
item->value = 42;
pmem_persist(&item->value, sizeof item->value);
item->valid = 1;
pmem_persist(&item->valid, sizeof item->valid);
```

If the data need not survive (a lock, a counter of statistics), keep it in volatile memory, or at least in a
cache line of its own.
",
};

pub(crate) struct MissingFlush(pub(crate) Tally);

impl MissingFlush {
    pub(crate) fn lost(&mut self, lost: &LostStore) {
        if lost.why != Lost::NotFlushed {
            return;
        }
        let key = Key::single(lost.tag.site, Some(lost.file()));
        self.0.add_many(key, lost.count, lost.time, || Occurrence {
            message: format!(
                "{} stored here {} never flushed",
                bytes_text(lost.bytes),
                be(lost.bytes)
            ),
            places: vec![("store", lost.tag.site, lost.time)],
            bytes: vec![(lost.line, lost.bytes)],
            values: vec![lost.tag.value("stored")],
        });
    }
}
