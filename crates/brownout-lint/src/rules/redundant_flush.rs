//! `redundant-flush`: the line holds nothing that a flush could persist.
//!
//! Mumak §4.2 ("addresses have not been written since the most recent flush"), Agamotto §2.4.2.1 ("extraneous
//! flush"). A line that another thread has flushed but not fenced is flushed for good reason: this thread
//! cannot wait for the other's fence. Writes by the kernel (`read` into the mapping, `write` to the file) count
//! as stores here.
//!
//! Can miss: flushes of lines whose stores were already written back by the cache itself, which nobody can know.

use brownout_model::ByteMask;
use brownout_report::{Category, RuleInfo, Severity};

use crate::rule_inputs::{FlushMoment, Work, file};
use crate::tally::{Key, Occurrence, Tally};

pub(crate) const INFO: RuleInfo = RuleInfo {
    id: "redundant-flush",
    severity: Severity::Bug,
    category: Category::Performance,
    summary: "a cache line is flushed that was not stored to since its last flush",
    explanation: "\
## What it does

Finds flushes of cache lines of persistent memory that were not stored to since they were last flushed or, if
they never were, since they were mapped.

## Why is this bad?

A flush goes to the memory controller even if there is nothing to write, and `clflush` and `clflushopt`
also drop the line from the cache, so that the next load waits for memory.

## Example

```c
p->a = 1;
pmem_persist(&p->a, sizeof p->a);
pmem_persist(p, sizeof *p);         /* a again, and lines that nobody changed */
```

## Fix

Flush what was stored, once: the bytes that changed, after the last store to them.
",
};

pub(crate) struct RedundantFlush(pub(crate) Tally);

impl RedundantFlush {
    #[inline]
    pub(crate) fn flushed(&mut self, flush: &FlushMoment) {
        if flush.work != Work::Nothing {
            return;
        }
        let key = Key::single(flush.site, Some(file(flush.line)));
        self.0.add(key, flush.time, || Occurrence {
            message: "nothing was stored to this cache line since it was last flushed or mapped"
                .to_owned(),
            places: vec![("flush", flush.site, flush.time)],
            bytes: vec![(flush.line, ByteMask::ALL)],
            values: Vec::new(),
        });
    }
}
