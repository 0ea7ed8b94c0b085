//! `missing-fence`: a store was flushed, or is non-temporal, and its thread executes no fence before the file is
//! unmapped, the thread ends or `exit` begins.
//!
//! Agamotto §2.4.2.1 ("missing flush/fence"), pmemcheck ("flushed, not fenced"). Any fence of the target counts, even
//! a locked instruction (see `accidental-fence`), but not those that the C library executes while the thread or the process
//! ends. A flush and fence of the same line by another thread counts, too, if it comes before the thread ends.
//!
//! Can miss: a missing fence where a later, unrelated fence of the same thread follows. Never
//! reports `clflush`, which needs no fence, nor stores in flight when their process was killed.

use brownout_report::{Category, Mistake, RuleInfo, RulePolicy, RuleRepair, Severity, TriedLoss};

use crate::rule::Rule;
use crate::rule_inputs::{ByteCounts, LossReason, LostStore};
use crate::tally::{Key, Message, Occurrence, Tally};

#[derive(Default)]
pub(crate) struct MissingFence;

impl Rule for MissingFence {
    const INFO: &'static RuleInfo = &RuleInfo {
        id: "missing-fence",
        severity: Severity::Bug,
        category: Category::Durability,
        pedantic: false,
        policy: RulePolicy {
            mistake: Mistake::MissingFence,
            tried: Some(TriedLoss::Stores { forever: false }),
            repair: RuleRepair::Fence { is_locked: false },
            ..RulePolicy::NONE
        },
        summary: "a flush or non-temporal store is not followed by a fence before unmapping or exit",
        explanation: "\
## What it does

Reports flushes (`clwb`, `clflushopt`) of stored data, and non-temporal stores, after which their thread
executes no `sfence`, `mfence` or locked instruction before the file is unmapped, the thread ends or `exit` begins. What
the C library executes on its way out does not count.

## Why is this bad?

`clwb` and `clflushopt` only start writing a line back, and a non-temporal store waits in a buffer of the
processor. Only a fence waits for them. Without it the program continues, reports success and unmaps the file while
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

    fn lost(&mut self, lost: &LostStore, found: &mut Tally) {
        let stored = ("store", lost.tag.site, lost.time);
        let (key, message, sites) = match lost.reason {
            LossReason::FlushNotFenced { flush, time } => (
                Key::pair(flush, lost.tag.site, lost.file()),
                "no fence follows this flush before unmapping or exit",
                vec![("flush", flush, time), stored],
            ),
            LossReason::NotFenced => (
                Key::single(lost.tag.site, Some(lost.file())),
                "no fence follows this non-temporal store before unmapping or exit",
                vec![stored],
            ),
            LossReason::NotFlushed | LossReason::NeverFlushed => return,
        };
        let counts = (lost.count, ByteCounts::of(lost.bytes));
        found.add_sized(key, counts, lost.time, || Occurrence {
            message: Message::OfBytes(Box::new(move |bytes| {
                format!("{message}: {bytes} can be lost")
            })),
            sites,
            bytes: vec![(lost.line, lost.bytes)],
            values: vec![lost.tag.value("stored")],
            unfenced_since: vec![lost.tag.unfenced_since(lost.thread, lost.time)],
        });
    }
}
