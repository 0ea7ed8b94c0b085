//! `flush-volatile`: a flush of memory that is no candidate for persistent memory.
//!
//! Mumak §4.2 ("flush instruction that acts on volatile addresses"). Files that the user left out with `--pm`
//! are not reported, though they are not persistent either: flushing them may be right for somebody else.

use brownout_report::{Category, RuleInfo, Severity};

use crate::site_keys::SiteId;
use crate::tally::{Key, Occurrence, Tally};

pub(crate) const INFO: RuleInfo = RuleInfo {
    id: "flush-volatile",
    severity: Severity::Bug,
    category: Category::Performance,
    summary: "memory is flushed that is not persistent",
    explanation: "\
## What it does

Finds flush instructions on addresses outside every mapped file: stack, heap, globals, anonymous mappings.

## Why is this bad?

The data is gone after a crash, flushed or not, and the flush costs time. Often the address is
wrong: that of a pointer instead of what it points to, or of a volatile copy; then the flush of the
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

pub(crate) struct FlushVolatile(pub(crate) Tally);

impl FlushVolatile {
    pub(crate) fn flushed(&mut self, site: SiteId, time: u64) {
        self.0.add(Key::single(site, None), time, || Occurrence {
            message: "this flush is of memory that is not persistent".to_owned(),
            places: vec![("flush", site, time)],
            ..Occurrence::default()
        });
    }
}
