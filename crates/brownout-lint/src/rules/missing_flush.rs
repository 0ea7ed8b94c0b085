//! `missing-flush`: a store is never made persistent, in a line that is flushed at some other time.
//!
//! Mumak §4.2 ("store instruction that is not explicitly persisted"), Agamotto §2.4.2.1 ("missing
//! flush/fence"). Judged by byte: if part of a store was written back, the rest counts. A store that was
//! overwritten by one that is never flushed was never flushed either, and is reported as well. A store is
//! judged when no process maps its bytes any more, and at the end of the trace. After unmapping, `fsync` still
//! writes back what was stored through the mapping, a flush no longer does. What the kernel writes to the file
//! through a descriptor is not judged.
//!
//! Can miss: a store that was persisted by chance, by a flush meant for other data in its line (see
//! `delayed-persist`); a store to bytes that were logged with a flag that tells the library not to flush them.
//! Never reports: stores of a transaction that was aborted or killed; a store in flight when its
//! process was killed or the recording ended, that is, one without a later fence of its thread; stores that
//! `tx-unlogged-store` reports; stores that take or release a lock, which `transient-data` reports.

use brownout_report::{Category, Mistake, RuleInfo, RulePolicy, RuleRepair, Severity, TriedLoss};

use crate::lost_together::LostTogether;
use crate::rule::Rule;
use crate::rule_inputs::{LossReason, LostStore};
use crate::tally::Tally;

#[derive(Default)]
pub(crate) struct MissingFlush {
    together: LostTogether,
}

impl Rule for MissingFlush {
    const INFO: &'static RuleInfo = &RuleInfo {
        id: "missing-flush",
        severity: Severity::Bug,
        category: Category::Durability,
        pedantic: false,
        policy: RulePolicy {
            mistake: Mistake::UnpersistedStore { clarity: 0 },
            tried: Some(TriedLoss::Stores { forever: true }),
            repair: RuleRepair::Flush,
            ..RulePolicy::NONE
        },
        summary: "a store is never flushed, although its cache line is flushed at some other time",
        explanation: "\
## What it does

Reports stores to persistent memory whose bytes are never written back from the cache: no `clwb`,
`clflushopt` or `clflush` of their cache line follows, nor `msync` or `fsync`, until the memory is unmapped or
the program ends. The same line is flushed at some other time in the run, so it does hold data
that is meant to be persistent. A store of bytes that are already durable is not reported: nothing can be lost.
Neither is a lock, which is transient by nature (see `transient-data`). A lock is recognised if a locked instruction takes it and a
plain store releases it. One that is also released by a locked instruction (`xchg`, `cmpxchg`) is reported: its stores look like those
of the flag of a log, which the sequentially consistent stores of C and C++ set and clear by `xchg`, and which has to be flushed.

Under `--model msync`, read *page* for cache line and *sync* for flush.

## Why is this bad?

The store may stay in the cache indefinitely. After a crash or a power failure it may be
lost, although later stores that were flushed are there.

## Example

```c
item->count = 1;
pmem_persist(&item->count, sizeof item->count);
item->count += 1;                                 /* the line was flushed before this store, and not after it */
```

## Fix

```c
item->count = 1;
pmem_persist(&item->count, sizeof item->count);
item->count += 1;
pmem_persist(&item->count, sizeof item->count);
```

If the data need not survive (a lock, a statistics counter), keep it in volatile memory, or at least in a
cache line of its own. If your recovery checks everything that has to survive, `missing-flush = \"unless-passed\"` in the table
`[rules]` of `brownout.toml` turns findings that crash testing tried, and that recovery tolerated, into warnings.
",
    };

    fn lost(&mut self, lost: &LostStore, found: &mut Tally) {
        if lost.reason != LossReason::NotFlushed || lost.is_of_lock {
            return;
        }
        self.together.add(lost, found);
        let (persisted, remark) = (lost.words().persisted, lost.remark());
        lost.report(found, move |bytes| {
            let be = bytes.be();
            format!("{bytes} stored here {be} never {persisted}{remark}")
        });
    }
}
