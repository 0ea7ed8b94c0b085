//! The rules of crash testing.

use brownout_report::{Category, RuleInfo, Severity};

use brownout_recovery::Verdict;

/// All of them.
pub const RULES: [&RuleInfo; 3] = [&RECOVERY_FAILED, &RECOVERY_CRASHED, &RECOVERY_HUNG];

/// The rule that a verdict falls under, if recovery did not pass.
pub fn rule_of(verdict: &Verdict) -> Option<&'static RuleInfo> {
    match verdict {
        Verdict::Passed => None,
        Verdict::Failed(_) | Verdict::ServerEnded | Verdict::WrongOutput | Verdict::OutOfMemory => {
            Some(&RECOVERY_FAILED)
        }
        Verdict::Crashed(_) => Some(&RECOVERY_CRASHED),
        Verdict::Hung => Some(&RECOVERY_HUNG),
    }
}

pub static RECOVERY_FAILED: RuleInfo = RuleInfo {
    id: "recovery-failed",
    severity: Severity::Bug,
    category: Category::Atomicity,
    summary: "after a crash at this place the program's own recovery fails",
    explanation: "\
## What it finds

A loss of power at the failure point leaves persistent memory in a state from which the program's own \
recovery (`--recover`) does not come back: it ends with a status other than success, prints something else than \
`--expect-output` or `--expect-one-of` allows, or needs more memory than `--memory-limit`. The state \
holds every store made before the failure point, in program order, and nothing else: a crash at that instant \
can leave it.

## Why it is bad

Data is lost, or the program does not start again, after a power cut that the program was made to survive.

## Example

```c
pool->count++;                      // visible first
persist(&pool->count);              // <- power is lost before the entry is written
pool->entry[pool->count - 1] = e;
persist(&pool->entry[pool->count - 1]);
```

## How to fix it

The report names the stores that are there and those that are missing when recovery fails. Write what depends on \
something after it (here: the entry before the count), make the update atomic with a log or \
a transaction, or teach recovery to recognise the state.
",
};

pub static RECOVERY_CRASHED: RuleInfo = RuleInfo {
    id: "recovery-crashed",
    severity: Severity::Bug,
    category: Category::Atomicity,
    summary: "after a crash at this place the program's own recovery is killed by a signal",
    explanation: "\
## What it finds

A loss of power at the failure point leaves persistent memory in a state on which the program's own recovery \
(`--recover`) is killed by a signal: a failed assertion, a wild pointer, a division by zero. The second stack shows \
where recovery was.

## Why it is bad

The program cannot be started again after such a crash: each start fails like the first.

## Example

```c
node->next = list->head;
list->head = offset_of(node);       // linked
persist(&list->head);               // <- power is lost; the node itself was never written
persist(node);
```

## How to fix it

Persist what is pointed to before the pointer. The report names the stores that are there and those that are missing \
when recovery crashes.
",
};

pub static RECOVERY_HUNG: RuleInfo = RuleInfo {
    id: "recovery-hung",
    severity: Severity::Bug,
    category: Category::Atomicity,
    summary: "after a crash at this place the program's own recovery does not end",
    explanation: "\
## What it finds

A loss of power at the failure point leaves persistent memory in a state on which the program's own recovery \
(`--recover`) did not end within its time limit, and not within several times that limit when it was run again. \
The second stack shows where it was.

## Why it is bad

The program cannot be started again after such a crash.

## Example

```c
tail->next = offset_of(head);       // a ring for a moment
persist(&tail->next);               // <- power is lost: recovery walks in a circle
head->prev = 0;
```

## How to fix it

Change the order of the updates so that each intermediate state can be walked through, or use a log. If recovery is \
only slow, give it more time with `--recover-time-limit`.
",
};
