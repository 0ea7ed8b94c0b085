//! `accidental-fence`: a flush or non-temporal store that only a locked instruction on volatile memory has ordered.
//!
//! On x86 every locked instruction is a fence: taking a mutex, counting a reference, or what the C library
//! does on exit. Reported when the thread ends and no `sfence`, `mfence`, locked store to persistent memory or writing
//! back of the file (`msync`) has followed: as long as one can, the locked instruction may just have come in between. Findings are told apart
//! by the flush or store alone: which lock happens to come next (often that of the loader, when a function is
//! called for the first time) is an accident as well.
//!
//! Can miss: a missing fence that a later, unrelated one of the same thread makes up for.

use brownout_report::{Category, RuleInfo, Severity};

use crate::follower::thread::AccidentallyOrdered;
use crate::tally::{Key, Occurrence, Tally};

pub(crate) const INFO: RuleInfo = RuleInfo {
    id: "accidental-fence",
    severity: Severity::Warning,
    category: Category::Ordering,
    summary: "a flush or non-temporal store is ordered by nothing but a locked instruction elsewhere",
    explanation: "\
## What it does

Finds flushes and non-temporal stores after which their thread executes no fence, but a locked instruction on
volatile memory: a mutex, an atomic counter, the C library on its way out.

## Why is this bad?

Locked instructions are fences, so that on this path the data is persistent from there on. Nothing in the
program says so. Where the lock is not contended, is optimised away, or the code is called without it, the
fence is gone; and between the flush and the lock nothing was ordered.

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

pub(crate) struct AccidentalFence(pub(crate) Tally);

impl AccidentalFence {
    /// The thread has ended without a real fence.
    pub(crate) fn left(&mut self, ordered: &AccidentallyOrdered) {
        let key = Key::single(ordered.site, Some(ordered.file));
        self.0
            .add_many(key, ordered.count, ordered.time, || Occurrence {
                message: match ordered.role {
                    "flush" => "only a locked instruction on other memory orders this flush",
                    _ => "only a locked instruction on other memory orders this non-temporal store",
                }
                .to_owned(),
                places: vec![
                    (ordered.role, ordered.site, ordered.time),
                    ("fence", ordered.fence, ordered.fence_time),
                ],
                ..Occurrence::default()
            });
    }
}
