//! `flush-covers-many`: one flush persists several stores, which works only because they share a line.
//!
//! Mumak §4.2 ("flush instruction that acts on more than one store"). The stores of one call of a copying
//! function count as one, and stores that were overwritten before the flush do not count. The first and the last store
//! are shown; findings are distinguished by the flush alone. Reports nothing where caches are
//! persistent, since nothing waits for a flush there.

use brownout_model::ByteMask;
use brownout_report::{Category, RuleInfo, RulePolicy, RuleRepair, Severity};

use crate::rule::Rule;
use crate::rule_inputs::{FlushWork, LineFlush, file};
use crate::tally::{Key, Occurrence, Tally};

#[derive(Default)]
pub(crate) struct FlushCoversMany;

impl Rule for FlushCoversMany {
    const INFO: &'static RuleInfo = &RuleInfo {
        id: "flush-covers-many",
        severity: Severity::Warning,
        category: Category::Performance,
        pedantic: true,
        policy: RulePolicy {
            repair: RuleRepair::ByHand(
                "the finding describes a pattern, not a missing operation; flush each object by hand if their order matters",
            ),
            ..RulePolicy::NONE
        },
        summary: "one flush covers several stores, by the layout of the data",
        explanation: "\
## What it does

Reports flushes of cache lines that were stored to more than once since they were last flushed.

## Why is this bad?

It is correct today, and the cheapest way to persist several stores. But it depends on the layout of the data:
another compiler, allocator or structure can put the stores into two lines, of which only one is
flushed. And if each store has a flush of its own, all but the first are redundant today.

## Example

```c
p->key = 1;
p->value = 2;
_mm_clwb(&p->key);          /* value only if it shares the line */
_mm_sfence();
```

## Fix

Flush the whole range that was stored, and align data that must share a line:

```c
pmem_persist(p, sizeof *p);
```
",
    };

    #[inline]
    fn flush(&mut self, flush: &LineFlush, found: &mut Tally) {
        let FlushWork::Stores { count, first, last } = flush.work else {
            return;
        };
        if count < 2 {
            return;
        }
        let key = Key::single(flush.site, Some(file(flush.line)));
        found.add(key, flush.time, || Occurrence {
            message: format!("this flush covers {count} stores to one cache line").into(),
            sites: vec![
                ("flush", flush.site, flush.time),
                ("first store", first.0, first.1),
                ("last store", last.0, last.1),
            ],
            bytes: vec![(flush.line, ByteMask::ALL)],
            ..Occurrence::default()
        });
    }
}
