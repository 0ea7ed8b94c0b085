//! `redundant-flush`: the line holds nothing that a flush could persist.
//!
//! Mumak §4.2 ("addresses have not been written since the most recent flush"), Agamotto §2.4.2.1 ("extraneous
//! flush"). Flushing a line that another thread has flushed but not fenced is not redundant: this thread
//! cannot wait for the other's fence. Writes by the kernel (`read` into the mapping, `write` to the file) count
//! as stores here.
//!
//! Can miss: flushes of lines that the cache itself has already written back, which no tool can observe.

use brownout_model::ByteMask;
use brownout_report::{Category, RuleInfo, RulePolicy, RuleRepair, Severity};

use crate::rule::Rule;
use crate::rule_inputs::{FlushWork, LineFlush, file};
use crate::tally::{Key, Occurrence, Tally};

#[derive(Default)]
pub(crate) struct RedundantFlush;

impl Rule for RedundantFlush {
    const INFO: &'static RuleInfo = &RuleInfo {
        id: "redundant-flush",
        severity: Severity::Performance,
        category: Category::Performance,
        pedantic: false,
        policy: RulePolicy {
            repair: RuleRepair::Removal { rank: 0, of_log_entry: false },
            ..RulePolicy::NONE
        },
        summary: "a cache line is flushed although nothing was stored to it since its last flush",
        explanation: "\
## What it does

Reports flushes of cache lines of persistent memory that were not stored to since their last flush or, if
they were never flushed, since they were mapped.

## Why is this bad?

A flush goes to the memory controller even if there is nothing to write, and `clflush` and `clflushopt`
also evict the line from the cache, so the next load waits for memory.

## Example

```c
p->a = 1;
pmem_persist(&p->a, sizeof p->a);
pmem_persist(p, sizeof *p);         /* a again, and unchanged lines */
```

## Fix

Flush what was stored, once: the bytes that changed, after the last store to them.
",
    };

    #[inline]
    fn flush(&mut self, flush: &LineFlush, found: &mut Tally) {
        if flush.work != FlushWork::Nothing {
            return;
        }
        let key = Key::single(flush.site, Some(file(flush.line)));
        found.add(key, flush.time, || Occurrence {
            message: "nothing was stored to this cache line since it was last flushed or mapped"
                .into(),
            sites: vec![("flush", flush.site, flush.time)],
            bytes: vec![(flush.line, ByteMask::ALL)],
            ..Occurrence::default()
        });
    }
}
