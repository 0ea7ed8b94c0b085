//! `fence-orders-many`: one fence orders several flushes or non-temporal stores, whose order among each other is open.
//!
//! Mumak §4.2 ("fence instruction that acts on more than one"). Counts only flushes and stores that have something to
//! persist: not flushes of clean lines or volatile memory, nor those of a library for its own purposes. The non-temporal
//! stores of one copy to one line count once. Two of the sites are shown; findings are distinguished by the fence alone.

use brownout_model::ByteMask;
use brownout_report::{Category, Mistake, RuleInfo, RulePolicy, RuleRepair, Severity, TriedLoss};

use crate::rule::Rule;
use crate::rule_inputs::Fence;
use crate::tally::{Key, Occurrence, Tally};

#[derive(Default)]
pub(crate) struct FenceOrdersMany;

impl Rule for FenceOrdersMany {
    const INFO: &'static RuleInfo = &RuleInfo {
        id: "fence-orders-many",
        severity: Severity::Warning,
        category: Category::Ordering,
        pedantic: true,
        policy: RulePolicy {
            mistake: Mistake::OpenOrder,
            tried: Some(TriedLoss::SomeOfFence),
            repair: RuleRepair::ByHand(
                "the finding describes a pattern, not a missing operation; fence each object by hand if their order matters",
            ),
            ..RulePolicy::NONE
        },
        summary: "a crash may keep one of several flushes or non-temporal stores without the others",
        explanation: "\
## What it does

Reports fences that more than one flush or non-temporal store waits for. Nothing else orders these.

## Why is this bad?

It need not be: sharing a fence is the fast way to persist several things, and correct if their order does not
matter. Before the fence, a crash may keep any of them without the others. If one announces another (a valid
flag, a pointer), recovery may find it alone.

## Example

```c
item->value = 42;
_mm_clwb(&item->value);
item->valid = 1;            /* in another line */
_mm_clwb(&item->valid);
_mm_sfence();               /* valid may be persistent without value */
```

## Fix

Put a fence between what must be in order. If nothing depends on the order, suppress the finding with that
reason.
",
    };

    #[inline]
    fn fence(&mut self, fence: &Fence<'_>, found: &mut Tally) {
        if fence.ordered < 2 {
            return;
        }
        let key = Key::single(fence.site, fence.file);
        found.add(key, fence.time, || {
            let mut sites = vec![("fence", fence.site, fence.time)];
            let examples = fence.examples.iter().flatten();
            sites.extend(
                examples
                    .clone()
                    .map(|ordered| (ordered.role, ordered.site, ordered.time)),
            );
            let shown = match fence.ordered {
                2 => "",
                _ => "; the first two are shown",
            };
            Occurrence {
                message: format!(
                    "a crash before this fence may keep any of the {} flushes or non-temporal stores before it without \
                     the others{shown}",
                    fence.ordered
                )
                .into(),
                sites,
                bytes: examples
                    .map(|ordered| (ordered.line, ByteMask::ALL))
                    .collect(),
                ..Occurrence::default()
            }
        });
    }
}
