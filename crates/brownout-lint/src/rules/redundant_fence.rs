//! `redundant-fence`: a fence that nothing of its thread waits for.
//!
//! Mumak §4.2 ("fence without pending flush or non-temporal stores"), Agamotto §2.4.2.1. `clflush` needs no
//! fence. A fence after a locked instruction that happened to do its work is not redundant: the program must
//! not depend on the locked instruction.
//!
//! Never reports locked instructions, fences of threads that have not accessed persistent memory, and fences inside
//! the C library, whose `memcpy` orders stores to volatile memory, too. False positives: a fence that a
//! thread with persistent data executes for another purpose, such as after non-temporal stores to volatile
//! memory, which a trace does not show, or to order loads (`mfence`).

use brownout_report::{Category, RuleInfo, RulePolicy, RuleRepair, Severity};
use brownout_trace::FenceKind;

use crate::attribution::Origin;
use crate::rule::Rule;
use crate::rule_inputs::Fence;
use crate::tally::{Key, Occurrence, Tally};

#[derive(Default)]
pub(crate) struct RedundantFence;

impl Rule for RedundantFence {
    const INFO: &'static RuleInfo = &RuleInfo {
        id: "redundant-fence",
        severity: Severity::Performance,
        category: Category::Performance,
        pedantic: false,
        policy: RulePolicy {
            repair: RuleRepair::Removal { rank: 1, of_log_entry: false },
            ..RulePolicy::NONE
        },
        summary: "a fence is executed while no flush or non-temporal store waits for one",
        explanation: "\
## What it does

Reports `sfence` and `mfence` in threads that have executed no `clwb`, `clflushopt` or non-temporal store
since their last fence.

## Why is this bad?

A fence makes the processor wait for all earlier stores. If nothing needs it, that time is wasted.
Often it is a sign that a flush before it was forgotten.

## Example

```c
pmem_persist(p, sizeof *p);         /* flushes and fences */
_mm_sfence();
```

## Fix

Remove the fence, or the earlier one if several flushes can share one. `clflush` takes effect without a fence.
",
    };

    #[inline]
    fn fence(&mut self, fence: &Fence<'_>, found: &mut Tally) {
        if fence.awaited || fence.file.is_none() {
            return;
        }
        let name = match fence.kind {
            FenceKind::Sfence => "sfence",
            FenceKind::Mfence => "mfence",
            _ => return,
        };
        if matches!(
            fence.origin,
            Origin::CLibrary | Origin::ThreadRuntime | Origin::Lock
        ) {
            return;
        }
        let key = Key::single(fence.site, fence.file);
        found.add(key, fence.time, || Occurrence {
            message: format!("no flush or non-temporal store waits for this {name}").into(),
            sites: vec![("fence", fence.site, fence.time)],
            ..Occurrence::default()
        });
    }
}
