//! `tx-not-ended`: a transaction of libpmemobj is still open when its thread or the program ends.
//!
//! Can miss: a transaction that another call of the library ends by accident. Never reports the transactions of a process
//! that was killed.

use brownout_report::{Category, RuleInfo, RulePolicy, RuleRepair, Severity};

use crate::follower::thread::ThreadState;
use crate::rule::Rule;
use crate::tally::{Key, Occurrence, Tally};

#[derive(Default)]
pub(crate) struct TxNotEnded;

impl Rule for TxNotEnded {
    const INFO: &'static RuleInfo = &RuleInfo {
        id: "tx-not-ended",
        severity: Severity::Bug,
        category: Category::Durability,
        pedantic: false,
        policy: RulePolicy {
            repair: RuleRepair::ByHand(
                "only the author can decide where the transaction should end; end it on every path",
            ),
            ..RulePolicy::NONE
        },
        summary: "a transaction is still open when its thread or the program ends",
        explanation: "\
## What it does

Reports calls of `pmemobj_tx_begin` (`TX_BEGIN`) whose transaction is still open when the thread ends, `exit` is called or
`main` returns.

## Why is this bad?

Only the end of a transaction commits it. When the pool is opened again, libpmemobj rolls the transaction back, and all its
changes are lost, although the program went on as if they had been made. Everything that the thread did
later in other transactions was nested in the open one and is lost, too.

## Example

```c
TX_BEGIN(pool) {
    TX_ADD(root);
    D_RW(root)->count += 1;
    if (full(root))
        return;             /* leaves the block without ending the transaction */
} TX_END
```

## Fix

```c
TX_BEGIN(pool) {
    TX_ADD(root);
    D_RW(root)->count += 1;
} TX_END
if (full(root))
    return;
```

Leave the block only at its end or with `pmemobj_tx_abort`: not with `return`, `goto`, `break`, `longjmp` or `exit`.
",
    };

    fn thread_end(&mut self, thread: &ThreadState, found: &mut Tally) {
        let Some((site, time, file)) = thread.transaction.not_ended() else {
            return;
        };
        if thread.completed {
            let key = Key::single(site, file);
            found.add(key, time, || Occurrence {
                message: "the transaction that begins here is never ended: its changes are lost"
                    .into(),
                sites: vec![("begin", site, time)],
                ..Occurrence::default()
            });
        }
    }
}
