//! `flush-of-nt-store`: a line is flushed in which only non-temporal stores are pending, and they need a fence.
//!
//! Mumak §4.2 by its treatment of non-temporal stores, Agamotto §2.4.1 (a non-temporal store counts as store and
//! flush). Lines that also hold cached stores, as at the unaligned ends of a copy, are not reported. After
//! a fence, the flush is a `redundant-flush`.

use brownout_model::ByteMask;
use brownout_report::{Category, RuleInfo, RulePolicy, RuleRepair, Severity};

use crate::rule::Rule;
use crate::rule_inputs::{FlushWork, LineFlush, file};
use crate::tally::{Key, Occurrence, Tally};

#[derive(Default)]
pub(crate) struct FlushOfNtStore;

impl Rule for FlushOfNtStore {
    const INFO: &'static RuleInfo = &RuleInfo {
        id: "flush-of-nt-store",
        severity: Severity::Performance,
        category: Category::Performance,
        pedantic: false,
        policy: RulePolicy {
            repair: RuleRepair::ByHand(
                "removing what looks redundant in one run can harm another; remove the flush by hand if the line is only ever stored to \
                 past the cache",
            ),
            ..RulePolicy::NONE
        },
        summary: "a cache line is flushed although it was only stored to past the cache",
        explanation: "\
## What it does

Reports flushes of cache lines in which only non-temporal stores (`movnt…`, `_mm_stream_…`,
`pmem_memcpy_nodrain` of large blocks) are waiting to become persistent.

## Why is this bad?

Non-temporal stores do not go through the cache, so there is nothing to flush. They wait for a fence. The
flush costs time, and may hide that the fence is missing.

## Example

```c
_mm_stream_si64(&p->value, 7);
_mm_clwb(&p->value);
_mm_sfence();
```

## Fix

```c
_mm_stream_si64(&p->value, 7);
_mm_sfence();
```

With libpmem, call `pmem_drain` after `pmem_memcpy_nodrain`, not `pmem_persist`.
",
    };

    #[inline]
    fn flush(&mut self, flush: &LineFlush, found: &mut Tally) {
        let FlushWork::NonTemporal { store, time } = flush.work else {
            return;
        };
        let key = Key::single(flush.site, Some(file(flush.line)));
        found.add(key, flush.time, || Occurrence {
            message: "only non-temporal stores to this line are pending; they need no flush".into(),
            sites: vec![("flush", flush.site, flush.time), ("store", store, time)],
            bytes: vec![(flush.line, ByteMask::ALL)],
            ..Occurrence::default()
        });
    }
}
