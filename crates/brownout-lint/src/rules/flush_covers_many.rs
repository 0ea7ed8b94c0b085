//! `flush-covers-many`: one flush persists several stores, which depends on their sharing a line.
//!
//! Mumak §4.2 ("flush instruction that acts on more than one store"). The stores of one call of a copying
//! function count as one, and stores that were overwritten before the flush do not count. Two places are shown, the
//! first and the last store; findings are told apart by the flush alone. Silent where caches are
//! persistent, as nothing waits for a flush there.

use brownout_model::ByteMask;
use brownout_report::{Category, RuleInfo, Severity};

use crate::rule_inputs::{FlushMoment, Work, file};
use crate::tally::{Key, Occurrence, Tally};

pub(crate) const INFO: RuleInfo = RuleInfo {
    id: "flush-covers-many",
    severity: Severity::Warning,
    category: Category::Performance,
    summary: "one flush covers several stores, by the layout of the data",
    explanation: "\
## What it does

Finds flushes of cache lines that were stored to more than once since they were last flushed.

## Why is this bad?

It is not wrong, and the cheapest way to persist several stores. But it depends on where the data lies:
another compiler, allocator or structure can put the stores into two lines, of which only one is
flushed; and if each store has a flush of its own, all but the first are redundant today.

## Example

```c
p->key = 1;
p->value = 2;
_mm_clwb(&p->key);          /* value only if it shares the line */
_mm_sfence();
```

## Fix

Flush the range of everything that was stored, and align what is to share a line:

```c
pmem_persist(p, sizeof *p);
```
",
};

pub(crate) struct FlushCoversMany(pub(crate) Tally);

impl FlushCoversMany {
    #[inline]
    pub(crate) fn flushed(&mut self, flush: &FlushMoment) {
        let Work::Stores { count, first, last } = flush.work else {
            return;
        };
        if count < 2 {
            return;
        }
        let key = Key::single(flush.site, Some(file(flush.line)));
        self.0.add(key, flush.time, || Occurrence {
            message: format!("this flush covers {count} stores to one cache line"),
            places: vec![
                ("flush", flush.site, flush.time),
                ("first store", first.0, first.1),
                ("last store", last.0, last.1),
            ],
            bytes: vec![(flush.line, ByteMask::ALL)],
            values: Vec::new(),
        });
    }
}
