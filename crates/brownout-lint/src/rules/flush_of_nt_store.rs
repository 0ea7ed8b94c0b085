//! `flush-of-nt-store`: a line is flushed of which only non-temporal stores wait, and these for a fence.
//!
//! Mumak §4.2 by its treatment of non-temporal stores, Agamotto §2.4.1 (a non-temporal store counts as store and
//! flush). Lines that also hold cached stores, as at the unaligned ends of a copy, are not reported. Once
//! a fence has come by, the flush is a `redundant-flush`.

use brownout_model::ByteMask;
use brownout_report::{Category, RuleInfo, Severity};

use crate::rule_inputs::{FlushMoment, Work, file};
use crate::tally::{Key, Occurrence, Tally};

pub(crate) const INFO: RuleInfo = RuleInfo {
    id: "flush-of-nt-store",
    severity: Severity::Bug,
    category: Category::Performance,
    summary: "a cache line is flushed that was only stored to past the cache",
    explanation: "\
## What it does

Finds flushes of cache lines of which only non-temporal stores (`movnt…`, `_mm_stream_…`,
`pmem_memcpy_nodrain` of large blocks) wait to become persistent.

## Why is this bad?

Non-temporal stores do not go through the cache, so that there is nothing to flush. They wait for a fence. The
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

With libpmem, follow `pmem_memcpy_nodrain` by `pmem_drain`, not by `pmem_persist`.
",
};

pub(crate) struct FlushOfNtStore(pub(crate) Tally);

impl FlushOfNtStore {
    #[inline]
    pub(crate) fn flushed(&mut self, flush: &FlushMoment) {
        let Work::NonTemporal { store, time } = flush.work else {
            return;
        };
        let key = Key::single(flush.site, Some(file(flush.line)));
        self.0.add(key, flush.time, || Occurrence {
            message: "only non-temporal stores to this cache line wait, and they need no flush"
                .to_owned(),
            places: vec![("flush", flush.site, flush.time), ("store", store, time)],
            bytes: vec![(flush.line, ByteMask::ALL)],
            values: Vec::new(),
        });
    }
}
