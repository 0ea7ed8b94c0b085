//! `transient-data`: stored to persistent memory, in a line that the whole run never flushes; or a lock that is not flushed.
//!
//! Mumak §4.2. Only the author knows whether the flush is missing or the data is in the wrong kind of memory; that
//! the line is never flushed suggests the latter. Judged at the same times as
//! `missing-flush`, with the same exceptions.

use brownout_report::{Category, Mistake, RuleInfo, RulePolicy, RuleRepair, Severity, TriedLoss};

use crate::lost_together::LostTogether;
use crate::rule::Rule;
use crate::rule_inputs::{LossReason, LostStore};
use crate::tally::Tally;

#[derive(Default)]
pub(crate) struct TransientData {
    together: LostTogether,
}

impl Rule for TransientData {
    const INFO: &'static RuleInfo = &RuleInfo {
        id: "transient-data",
        severity: Severity::Warning,
        category: Category::Durability,
        pedantic: false,
        policy: RulePolicy {
            mistake: Mistake::UnpersistedStore { clarity: 2 },
            tried: Some(TriedLoss::Stores { forever: true }),
            is_implied_by_pointer: true,
            repair: RuleRepair::FlushOnRequest(
                "nothing in the run says that these bytes have to survive; name the finding or the rule to have them flushed: \
                 `brownout fix DIR transient-data`",
            ),
        },
        summary: "data is stored to persistent memory and its cache line is never flushed",
        explanation: "\
## What it does

Reports stores to persistent memory whose cache line is never flushed or written back in the whole run, unless they store the
bytes that are already durable. Also reports locks that are not flushed, whether or not their cache line is flushed at some
other time: words that a thread changes by a locked instruction, and then restores with a plain store; and version locks, in which a
locked instruction sets a bit and another instruction clears it and advances the version. A crash while a lock is held can leave
it held, with and without a flush, so recovery has to reset it in any case.

Under `--model msync`, read *page* for cache line and *sync* for flush.

## Why is this bad?

Either the data must survive a crash, and its flush is missing everywhere, or it need not, and occupies slow and
scarce memory (locks, caches, statistics counters). After a restart its content is unpredictable.

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

    fn lost(&mut self, lost: &LostStore, found: &mut Tally) {
        let is_transient = match lost.reason {
            LossReason::NeverFlushed => true,
            LossReason::NotFlushed => lost.is_of_lock,
            LossReason::FlushNotFenced { .. } | LossReason::NotFenced => false,
        };
        if !is_transient {
            return;
        }
        self.together.add(lost, found);
        let (words, remark, is_of_lock) = (lost.words(), lost.remark(), lost.is_of_lock);
        lost.report(found, move |bytes| match is_of_lock {
            true => format!(
                "a lock of {bytes} is stored here and never {}; recovery has to reset it{remark}",
                words.persisted
            ),
            false => format!(
                "{bytes} {} stored here in a {} that is never {}{remark}",
                bytes.be(),
                words.unit,
                words.persisted
            ),
        });
    }
}
