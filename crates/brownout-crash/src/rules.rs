//! The rules of crash testing.

use brownout_report::{Category, Mistake, RuleInfo, RulePolicy, RuleRepair, Severity};

use brownout_recovery::Verdict;

/// All rules of crash testing.
pub const RULES: [&RuleInfo; 4] = [
    &RECOVERY_FAILED,
    &RECOVERY_CRASHED,
    &RECOVERY_HUNG,
    &UNPERSISTED_READ,
];

/// The rule that reports a verdict; `None` if recovery passed.
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

/// Why what recovery shows is not repaired.
const OUT_OF_ORDER: &str = "flushes and fences cannot change the order of stores or join two steps into one; change the order of the two \
         stores that it names, or make them one update (a log, a transaction, one word)";

pub static RECOVERY_FAILED: RuleInfo = RuleInfo {
    id: "recovery-failed",
    severity: Severity::Bug,
    category: Category::Atomicity,
    pedantic: false,
    policy: RulePolicy {
        repair: RuleRepair::ByHand(OUT_OF_ORDER),
        ..RulePolicy::NONE
    },
    summary: "after a crash here, the program's own recovery fails",
    explanation: "\
## What it does

Reports failure points at which a loss of power leaves persistent memory in a state that the program's own
recovery (`--recover`) cannot handle: recovery exits with a status other than success, does not print what
`--expect-output` or `--expect-one-of` requires, or exceeds `--memory-limit`. Unless the finding describes
another crash state, the state contains every store before the failure point, in program order, and nothing
else. A crash at that instant can leave it.

## Why is this bad?

Data is lost, or the program does not start again, after a power failure that the program is designed to
survive.

## Example

```c
pool->count++;                      /* visible first */
persist(&pool->count);              /* power is lost before the entry is written */
pool->entry[pool->count - 1] = e;
persist(&pool->entry[pool->count - 1]);
```

## Fix

Persist data before what refers to it:

```c
pool->entry[pool->count] = e;
persist(&pool->entry[pool->count]);
pool->count++;
persist(&pool->count);
```

Or make the update atomic with a log or a transaction, or make recovery handle the state. The report names the
stores that are present and those that are missing when recovery fails.
",
};

pub static RECOVERY_CRASHED: RuleInfo = RuleInfo {
    id: "recovery-crashed",
    severity: Severity::Bug,
    category: Category::Atomicity,
    pedantic: false,
    policy: RulePolicy {
        repair: RuleRepair::ByHand(OUT_OF_ORDER),
        ..RulePolicy::NONE
    },
    summary: "after a crash here, the program's own recovery is killed by a signal",
    explanation: "\
## What it does

Reports failure points at which a loss of power leaves persistent memory in a state on which the program's own
recovery (`--recover`) is killed by a signal: a failed assertion, a wild pointer, a division by zero. The second
stack shows where recovery was.

## Why is this bad?

The program cannot be restarted after such a crash: each start fails in the same way.

## Example

```c
uint64_t first = list->head;
list->head = offset_of(node);
persist(&list->head);               /* power is lost here: the node has no content yet */
node->next = first;
persist(node);
```

## Fix

Write and persist the data before the pointer to it:

```c
node->next = list->head;
persist(node);
list->head = offset_of(node);
persist(&list->head);
```

The report names the stores that are present and those that are missing when recovery crashes.
",
};

pub static RECOVERY_HUNG: RuleInfo = RuleInfo {
    id: "recovery-hung",
    severity: Severity::Bug,
    category: Category::Atomicity,
    pedantic: false,
    policy: RulePolicy {
        repair: RuleRepair::ByHand(OUT_OF_ORDER),
        ..RulePolicy::NONE
    },
    summary: "after a crash here, the program's own recovery does not end",
    explanation: "\
## What it does

Reports failure points at which a loss of power leaves persistent memory in a state on which the program's own
recovery (`--recover`) did not end within its time limit, nor within several times that limit when it was run
again; or it was stuck both times: all its threads waited for each other, or it computed for long without reading
or writing anything new. The second stack shows where it was.

## Why is this bad?

The program cannot be restarted after such a crash.

## Example

```c
tail->next = offset_of(head);       /* a ring for a moment */
persist(&tail->next);               /* power is lost: recovery loops forever */
head->prev = 0;
```

## Fix

Change the order of the updates so that recovery can traverse each intermediate state, or use a log:

```c
head->prev = 0;
persist(&head->prev);
tail->next = offset_of(head);
persist(&tail->next);
```

If recovery is only slow, raise `--recover-time-limit`.
",
};

pub static UNPERSISTED_READ: RuleInfo = RuleInfo {
    id: "unpersisted-read",
    severity: Severity::Warning,
    category: Category::Durability,
    pedantic: true,
    policy: RulePolicy {
        mistake: Mistake::UnpersistedStore { clarity: 5 },
        repair: RuleRepair::ByHand(OUT_OF_ORDER),
        ..RulePolicy::NONE
    },
    summary: "recovery reads a store that a crash can lose long after it was made",
    explanation: "\
## What it does

With `--strategy exhaustive`, reports loads of the recovery (`--recover`) that can read from several stores: after a
crash, the bytes are those of a store, or what was there before. The store is *late*: a later store of its thread can
be durable without it, and recovery reads that one, too; or the store is never made durable at all. There is a finding
for each pair of a store and a load that reads it, whether recovery copes with the older bytes or not.

Not reported are stores in flight. Recovery has to find out somehow whether the last step of an update has
happened, and reads a commit store that the program has just made. Nor are reads by system calls such as
`read` reported, or reads of private mappings.

## Why is this bad?

A flush or a fence is missing. Later steps of the program are durable and this store is not, so that recovery sees
them in an order that the program never had. Recovery may cope with that today, or may not have been run with
the data that shows the mistake.

## Example

```c
node->next = list->head;            /* not flushed here */
list->head = offset_of(node);
persist(&list->head);
persist(node);                      /* power may be lost before */
```

Recovery reads `node->next` and finds what was there before.

## Fix

Make the store durable before later stores:

```c
node->next = list->head;
persist(node);
list->head = offset_of(node);
persist(&list->head);
```

If recovery checks what it reads, for example with a checksum, suppress the finding or leave the rule off.
",
};
