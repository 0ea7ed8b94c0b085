//! `flush-volatile`: a flush of memory that is not a candidate for persistent memory.
//!
//! Mumak §4.2 ("flush instruction that acts on volatile addresses"). Files that `--pm` excludes
//! are not reported, although they are not persistent either: another user of the code may need the flush.

use brownout_report::{Category, RuleInfo, RulePolicy, RuleRepair, Severity};

use crate::rule::Rule;
use crate::rule_inputs::VolatileFlush;
use crate::tally::{Key, Occurrence, Tally};

#[derive(Default)]
pub(crate) struct FlushVolatile;

impl Rule for FlushVolatile {
    const INFO: &'static RuleInfo = &RuleInfo {
        id: "flush-volatile",
        severity: Severity::Performance,
        category: Category::Performance,
        pedantic: false,
        policy: RulePolicy {
            repair: RuleRepair::Removal { rank: 2, of_log_entry: false },
            ..RulePolicy::NONE
        },
        summary: "memory that is not persistent is flushed",
        explanation: "\
## What it does

Reports flush instructions on addresses outside every mapped file: stack, heap, globals, anonymous mappings.

## Why is this bad?

The data is lost in a crash, flushed or not, and the flush costs time. Often the address is
wrong: that of a pointer instead of its target, or of a volatile copy. Then the flush of the
persistent data is missing.

## Example

```c
struct node *node = &pool->nodes[i];
node->value = 7;
pmem_persist(&node, sizeof node);   /* the pointer on the stack */
```

## Fix

```c
pmem_persist(node, sizeof *node);
```
",
    };

    fn volatile_flush(&mut self, flush: &VolatileFlush, found: &mut Tally) {
        found.add(Key::single(flush.site, None), flush.time, || Occurrence {
            message: "this flush targets memory that is not persistent".into(),
            sites: vec![("flush", flush.site, flush.time)],
            ..Occurrence::default()
        });
    }
}
