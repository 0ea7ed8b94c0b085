//! `redundant-fence`: a fence that nothing of its thread waits for.
//!
//! Mumak §4.2 ("fence without pending flush or non-temporal stores"), Agamotto §2.4.2.1. `clflush` needs no
//! fence. A fence after a locked instruction that happened to do its work is not redundant: the program must
//! not count on that.
//!
//! Never reports locked instructions, fences of threads that have not touched persistent memory, and fences inside
//! the C library, whose `memcpy` orders stores to volatile memory too. Can report falsely a fence that a
//! thread with persistent data executes for another purpose: after non-temporal stores to volatile
//! memory, which a trace does not show, or to order loads (`mfence`).

use brownout_report::{Category, RuleInfo, Severity};
use brownout_trace::FenceKind;

use crate::attribution::Origin;
use crate::rule_inputs::FenceMoment;
use crate::site_keys::Known;
use crate::tally::{Key, Occurrence, Tally};

pub(crate) const INFO: RuleInfo = RuleInfo {
    id: "redundant-fence",
    severity: Severity::Bug,
    category: Category::Performance,
    summary: "a fence is executed while no flush or non-temporal store waits for one",
    explanation: "\
## What it does

Finds `sfence` and `mfence` in threads that have executed no `clwb`, `clflushopt` or non-temporal store
since their last fence.

## Why is this bad?

A fence makes the processor wait for all earlier stores. If nothing was begun that needs it, the time is lost.
Often it is a sign that a flush was forgotten before it.

## Example

```c
pmem_persist(p, sizeof *p);         /* flushes and fences */
_mm_sfence();
```

## Fix

Remove the fence, or the earlier one if several flushes can share one. `clflush` takes effect without a fence.
",
};

pub(crate) struct RedundantFence(pub(crate) Tally);

impl RedundantFence {
    #[inline]
    pub(crate) fn fenced(&mut self, known: &Known, fence: &FenceMoment<'_>) {
        if fence.awaited || fence.file.is_none() {
            return;
        }
        let name = match fence.kind {
            FenceKind::Sfence => "sfence",
            FenceKind::Mfence => "mfence",
            FenceKind::Locked => return,
        };
        if matches!(known.origin(fence.site), Origin::CLibrary | Origin::Lock) {
            return;
        }
        let key = Key::single(fence.site, fence.file);
        self.0.add(key, fence.time, || Occurrence {
            message: format!("no flush or non-temporal store waits for this {name}"),
            places: vec![("fence", fence.site, fence.time)],
            ..Occurrence::default()
        });
    }
}
