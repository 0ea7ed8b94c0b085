//! `accidental-fence`: only a locked instruction on volatile memory orders a flush or non-temporal store.
//!
//! On x86 every locked instruction is a fence: taking a mutex, counting a reference. What the C library executes while a
//! thread or the process ends is not counted (see `missing-fence`). The rule reports if no `sfence`, `mfence`, locked store to
//! persistent memory or write-back of the file (`msync`) follows in the same thread; if one does, the locked instruction may
//! merely have come first. It reports even so if that fence guarantees a pointer to the data, which was stored after the locked
//! instruction: their order depends on that alone. Findings are distinguished by the flush or store alone: which locked instruction comes next (often the dynamic
//! loader's, when a function is called for the first time) is an accident, too.
//!
//! Can miss: a missing fence that a later, unrelated fence of the same thread compensates for, where the order does not show
//! in a pointer.

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
volatile memory: a mutex, an atomic counter. If a fence comes later, it reports those that a pointer stored after the locked
instruction leads to: the pointer must not become persistent first, and the later fence orders both together.

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
        for ordered in thread.accidental.iter().chain(&thread.relied_on) {
            let key = Key::single(ordered.site, Some(ordered.file()));
            found.add_many(key, ordered.count, ordered.time, || {
                let what = match ordered.role {
                    "flush" => "flush",
                    _ => "non-temporal store",
                };
                let before = match ordered.pointer {
                    Some(_) => " before a pointer to its data",
                    None => "",
                };
                let mut sites = vec![
                    (ordered.role, ordered.site, ordered.time),
                    ("fence", ordered.fence, ordered.fence_time),
                ];
                sites.extend(ordered.pointer.map(|(site, time)| ("pointer", site, time)));
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
