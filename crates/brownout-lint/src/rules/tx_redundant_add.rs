//! `tx-redundant-add`: bytes that need no logging are added to a transaction's log.
//!
//! Agamotto §2.4.2.2 (redundant undo log oracle), which reports every overlap. This rule reports a range only if all of it
//! is already safe, since a range that overlaps by a few bytes is often the natural one to add. Bytes are
//! safe if the transaction, or one that it is nested in or that is nested in it, has added them or has
//! allocated the object they belong to.
//!
//! Can miss: statically linked programs without symbols. Never reports calls that the library itself makes, calls that its
//! C++ bindings make on each assignment to one of their types, and calls that fail.

use brownout_model::{ByteMask, PmAddress, SpaceId, line_parts};
use brownout_report::{Category, RuleInfo, RulePolicy, RuleRepair, Severity};
use brownout_trace::FileRange;

use crate::rule::Rule;
use crate::rule_inputs::LogAdd;
use crate::tally::{Key, Occurrence, Tally};
use crate::transactions::SafeReason;

#[derive(Default)]
pub(crate) struct TxRedundantAdd;

impl Rule for TxRedundantAdd {
    const INFO: &'static RuleInfo = &RuleInfo {
        id: "tx-redundant-add",
        severity: Severity::Performance,
        category: Category::Performance,
        pedantic: false,
        policy: RulePolicy {
            repair: RuleRepair::Removal { rank: 3, of_log_entry: true },
            ..RulePolicy::NONE
        },
        summary: "a range is added to a transaction that already contains it",
        explanation: "\
## What it does

Reports calls of libpmemobj's `pmemobj_tx_add_range` and related functions (`TX_ADD`, `TX_ADD_FIELD`, `TX_SET`, ...)
for bytes that the transaction has added before, or that belong to an object it has allocated. Nested
transactions belong to the outermost.

## Why is this bad?

Each call searches the transaction's ranges, and depending on the library's version copies the bytes to the undo
log once more, with flushes and a fence. A new object needs no log: aborting the
transaction frees it.

## Example

```c
TX_BEGIN(pop) {
    TX_ADD(root);
    D_RW(root)->count++;
    TX_ADD_FIELD(root, list);       /* part of the object added above */
    D_RW(root)->list = node;
} TX_END
```

## Fix

Add each range once, before its first change; do not add what the transaction has allocated.
",
    };

    fn log_add(&mut self, add: &LogAdd<'_>, found: &mut Tally) {
        let safe = |range: &FileRange| add.transaction.safe(*range);
        let Some((range, others)) = add.ranges.split_first() else {
            return;
        };
        let Some(first) = safe(range) else {
            return;
        };
        if !others.iter().all(|range| safe(range).is_some()) {
            return;
        }
        let (role, where_from) = match first.reason {
            SafeReason::Added => ("added before", "in the log of this transaction"),
            SafeReason::Allocated => (
                "allocation",
                "of an object that this transaction has allocated",
            ),
        };
        let all = match range.len {
            1 => "the byte is already".to_owned(),
            len => format!("all {len} bytes are already"),
        };
        let key = Key::single(add.site, Some(range.file));
        found.add(key, add.time, || Occurrence {
            message: format!("{all} {where_from}").into(),
            sites: vec![("add", add.site, add.time), (role, first.site, first.time)],
            bytes: lines(*range),
            ..Occurrence::default()
        });
    }
}

/// The first lines of a range.
fn lines(range: FileRange) -> Vec<(PmAddress, ByteMask)> {
    const SHOWN: usize = 4;
    let space = SpaceId(range.file.0);
    line_parts(range.offset, range.len)
        .map(|(offset, mask, _)| (PmAddress { space, offset }, mask))
        .take(SHOWN)
        .collect()
}
