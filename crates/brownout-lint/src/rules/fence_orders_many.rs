//! `fence-orders-many`: one fence orders several flushes or non-temporal stores, whose order among each other is open.
//!
//! Mumak §4.2 ("fence instruction that acts on more than one"). Only what had something to persist counts: not
//! flushes of clean lines or volatile memory, nor what a library has begun for itself. The non-temporal stores of one
//! copy to one line count once. Two of the places are shown; findings are told apart by the fence alone.

use brownout_model::ByteMask;
use brownout_report::{Category, RuleInfo, Severity};

use crate::rule_inputs::FenceMoment;
use crate::tally::{Key, Occurrence, Tally};

pub(crate) const INFO: RuleInfo = RuleInfo {
    id: "fence-orders-many",
    severity: Severity::Warning,
    category: Category::Ordering,
    summary: "several flushes or non-temporal stores are ordered only by one fence",
    explanation: "\
## What it does

Finds fences that more than one flush or non-temporal store waits for.

## Why is this bad?

It is the fast way to persist several things, and right if their order does not matter. Up to the fence, a
crash may leave any of them without the others. If one says that another is there, recovery may find
it alone.

## Example

```c
item->value = 42;
_mm_clwb(&item->value);
item->valid = 1;            /* in another line */
_mm_clwb(&item->valid);
_mm_sfence();               /* valid may be persistent without value */
```

## Fix

Put a fence between what must be in order. If nothing depends on the order, this is as it should be:
`brownout crash --strategy exhaustive` tests all orders.
",
};

pub(crate) struct FenceOrdersMany(pub(crate) Tally);

impl FenceOrdersMany {
    #[inline]
    pub(crate) fn fenced(&mut self, fence: &FenceMoment<'_>) {
        if fence.ordered < 2 {
            return;
        }
        let key = Key::single(fence.site, fence.file);
        self.0.add(key, fence.time, || {
            let mut places = vec![("fence", fence.site, fence.time)];
            let examples = fence.examples.iter().flatten();
            places.extend(
                examples
                    .clone()
                    .map(|ordered| (ordered.role, ordered.site, ordered.time)),
            );
            Occurrence {
                message: format!(
                    "{} flushes or non-temporal stores are ordered only by this fence",
                    fence.ordered
                ),
                places,
                bytes: examples
                    .map(|ordered| (ordered.line, ByteMask::ALL))
                    .collect(),
                values: Vec::new(),
            }
        });
    }
}
