//! `accidental-fence`: only a locked instruction on volatile memory orders a flush or non-temporal store.
//!
//! On x86 every locked instruction is a fence: taking a mutex, counting a reference. What the C library executes while a
//! thread or the process ends is not counted (see `missing-fence`). The rule reports when the thread ends and no `sfence`, `mfence`, locked store to persistent
//! memory or write-back of the file (`msync`) has followed; until then, the locked instruction may merely have come
//! first. Findings are distinguished by the flush or store alone: which locked instruction comes next (often the dynamic
//! loader's, when a function is called for the first time) is an accident, too.
//!
//! Can miss: a missing fence that a later, unrelated fence of the same thread compensates for.

use brownout_report::{Category, RuleInfo, Severity};

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
        summary: "a flush or non-temporal store is ordered by nothing but a locked instruction elsewhere",
        explanation: "\
## What it does

Reports flushes and non-temporal stores after which their thread executes no fence, only a locked instruction on
volatile memory: a mutex, an atomic counter.

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
        for ordered in &thread.accidental {
            let key = Key::single(ordered.site, Some(ordered.file));
            found.add_many(key, ordered.count, ordered.time, || Occurrence {
                message: match ordered.role {
                    "flush" => "only a locked instruction on other memory orders this flush",
                    _ => "only a locked instruction on other memory orders this non-temporal store",
                }
                .to_owned(),
                sites: vec![
                    (ordered.role, ordered.site, ordered.time),
                    ("fence", ordered.fence, ordered.fence_time),
                ],
                ..Occurrence::default()
            });
        }
    }
}
