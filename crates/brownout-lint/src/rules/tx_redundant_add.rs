//! `tx-redundant-add`: bytes are added to a transaction's log that need no more logging.
//!
//! Agamotto §2.4.2.2 (redundant undo log oracle), which reports every overlap; here only ranges all of which are
//! safe already are, since a range that overlaps by a few bytes is often the natural one to add. Bytes are
//! safe if the transaction, or one that it is nested in or that is nested in it, has added them or has
//! allocated the object they belong to.
//!
//! Can miss: statically linked programs without symbols. Never reports calls that the library itself makes, that its C++
//! bindings make on each assignment to a type of theirs, and those that fail.

use brownout_model::{ByteMask, PmAddress, SpaceId};
use brownout_report::{Category, RuleInfo, Severity};
use brownout_trace::FileRange;

use crate::site_keys::SiteId;
use crate::tally::{Key, Occurrence, Tally};
use crate::transactions::{Reason, Safe};

pub(crate) const INFO: RuleInfo = RuleInfo {
    id: "tx-redundant-add",
    severity: Severity::Bug,
    category: Category::Performance,
    summary: "a range is added to a transaction that has it already",
    explanation: "\
## What it does

Finds calls of libpmemobj's `pmemobj_tx_add_range` and its kin (`TX_ADD`, `TX_ADD_FIELD`, `TX_SET`, ...) for bytes
that the transaction has added before, or that belong to an object which it has allocated. Nested
transactions are one with the outermost.

## Why is this bad?

Each call searches the transaction's ranges, and depending on the library's version copies the bytes to the undo
log, with flushes and a fence, once more. An object that is new needs no log: it is gone if the
transaction is aborted.

## Example

```c
TX_BEGIN(pop) {
    TX_ADD(root);
    D_RW(root)->count++;
    TX_ADD_FIELD(root, list);       /* part of what was added above */
    D_RW(root)->list = node;
} TX_END
```

## Fix

Add each range once, before its first change; do not add what the transaction has allocated.
",
};

pub(crate) struct TxRedundantAdd(pub(crate) Tally);

impl TxRedundantAdd {
    /// `range` is added though all of it is safe, its first byte for the reason given.
    pub(crate) fn added(&mut self, site: SiteId, time: u64, range: FileRange, safe: Safe) {
        let (role, message) = match safe.reason {
            Reason::Added => (
                "added before",
                format!("all {} bytes are in the log of this transaction", range.len),
            ),
            Reason::Allocated => (
                "allocation",
                format!(
                    "all {} bytes belong to an object that this transaction has allocated",
                    range.len
                ),
            ),
        };
        self.0
            .add(Key::single(site, Some(range.file)), time, || Occurrence {
                message,
                places: vec![("add", site, time), (role, safe.site, safe.time)],
                bytes: lines(range),
                values: Vec::new(),
            });
    }
}

/// The first lines of a range.
fn lines(range: FileRange) -> Vec<(PmAddress, ByteMask)> {
    const SHOWN: usize = 4;
    let space = SpaceId(range.file.0);
    brownout_model::line_parts(range.offset, range.len)
        .map(|(offset, mask, _)| (PmAddress { space, offset }, mask))
        .take(SHOWN)
        .collect()
}
