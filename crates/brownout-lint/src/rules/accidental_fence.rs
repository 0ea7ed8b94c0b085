//! `accidental-fence`: only a locked instruction on volatile memory orders a flush or non-temporal store.
//!
//! On x86 every locked instruction is a fence: taking a mutex, counting a reference. What the C library executes while a
//! thread or the process ends is not counted (see `missing-fence`). The rule reports if no `sfence`, `mfence`, locked store to
//! persistent memory or write-back of the file (`msync`) follows in the same thread; if one does, the locked instruction may
//! merely have come first. It reports even so if something that has to come after the data was stored after the locked instruction
//! and became persistent with that fence or before: a pointer to the data, or a word that is updated each time after other data
//! (`follower/accidental_orders.rs`). Findings are distinguished by the flush or store alone: which locked instruction comes next
//! (often the dynamic loader's, when a function is called for the first time) is an accident, too.
//!
//! Can miss: a missing fence that a later, unrelated fence of the same thread compensates for, where what relies on the order
//! is neither a pointer nor a word that is updated repeatedly.

use brownout_report::{Category, Mistake, RuleInfo, RulePolicy, RuleRepair, Severity};

use crate::follower::accidental_orders::Reliance;
use crate::follower::thread::ThreadState;
use crate::rule::Rule;
use crate::tally::{Key, Occurrence, Tally};

#[derive(Default)]
pub(crate) struct AccidentalFence;

impl Rule for AccidentalFence {
    const INFO: &'static RuleInfo = &RuleInfo {
        id: "accidental-fence",
        severity: Severity::Warning,
        category: Category::Ordering,
        pedantic: false,
        policy: RulePolicy {
            mistake: Mistake::AccidentalFence,
            repair: RuleRepair::Fence { is_locked: true },
            ..RulePolicy::NONE
        },
        summary: "a flush or non-temporal store is ordered by nothing but a locked instruction elsewhere",
        explanation: "\
## What it does

Reports flushes and non-temporal stores after which their thread executes no fence, only a locked instruction on
volatile memory: a mutex, an atomic counter. A fence that comes later is too late for what was stored after the locked
instruction: a pointer to the data, or a count or tail that is updated each time after other data. They must not become
persistent first, and the later fence orders both together. Flushes that such stores follow are reported, too.

## Why is this bad?

Locked instructions are fences, so on this path the data is persistent after it. Nothing in the
program states that intent. If the lock is elided, replaced or moved, or the code is called without it, the
fence is gone. Between the flush and the lock, nothing was ordered.

## Example

```c
log->tail = tail;
_mm_clwb(&log->tail);
pthread_mutex_unlock(&lock);        /* the only fence */
```

## Fix

```c
log->tail = tail;
_mm_clwb(&log->tail);
_mm_sfence();
pthread_mutex_unlock(&lock);
```
",
    };

    fn thread_end(&mut self, thread: &ThreadState, found: &mut Tally) {
        for ordered in thread.accidental.reported() {
            let key = Key::single(ordered.site, Some(ordered.file()));
            found.add_many(key, ordered.count, ordered.time, || {
                let what = match ordered.role {
                    "flush" => "flush",
                    _ => "non-temporal store",
                };
                let relying = ordered.relying;
                let (relying_role, before) = match relying.map(|store| store.kind) {
                    Some(Reliance::Pointer) => ("pointer", " before a pointer to its data"),
                    Some(Reliance::Announcement) => (
                        "later store",
                        " before a word that is updated after it each time",
                    ),
                    None => ("", ""),
                };
                let mut sites = vec![
                    (ordered.role, ordered.site, ordered.time),
                    ("fence", ordered.fence, ordered.fence_time),
                ];
                sites.extend(relying.map(|store| (relying_role, store.site, store.time)));
                Occurrence {
                    message: format!(
                        "only a locked instruction on other memory orders this {what}{before}"
                    )
                    .into(),
                    sites,
                    ..Occurrence::default()
                }
            });
        }
    }
}
