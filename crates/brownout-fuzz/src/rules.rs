//! The rules of fuzzing: the target itself fails on a generated input.

use brownout_report::{Category, RuleInfo, RulePolicy, Severity};

/// All rules of fuzzing.
pub const RULES: [&RuleInfo; 2] = [&TARGET_CRASHED, &TARGET_HUNG];

pub static TARGET_CRASHED: RuleInfo = RuleInfo {
    id: "target-crashed",
    severity: Severity::Bug,
    category: Category::Atomicity,
    pedantic: false,
    policy: RulePolicy::NONE,
    summary: "the program is killed by a signal on a generated input or image",
    explanation: "\
## What it does

Reports inputs, and the persistent files on which the program started, on which the program was killed by a signal: a failed
assertion, a wild pointer, a division by zero. The program was run again without instrumentation on the same input and files,
and was killed there, too. The stack shows where.

The files are none, those that the user has, those that an earlier input has left, or those that a loss of power during an earlier
input can leave. The finding says which, and has the path of the input.

## Why is this bad?

On files that a loss of power leaves, the program cannot be restarted. On other files, anyone who can choose the input can stop the
program, and may leave its persistent data damaged.

## Example

```c
struct node *node = at(pool, pool->head);   /* a loss of power has left a head without a node */
while (node->next)
    node = at(pool, node->next);
```

## Fix

Check what is read from persistent memory before it is used, or persist data before what refers to it. `brownout replay`
repeats the crash; with `--gdb` it stops there.
",
};

pub static TARGET_HUNG: RuleInfo = RuleInfo {
    id: "target-hung",
    severity: Severity::Bug,
    category: Category::Atomicity,
    pedantic: false,
    policy: RulePolicy::NONE,
    summary: "the program does not end on a generated input or image",
    explanation: "\
## What it does

Reports inputs, and the persistent files on which the program started, on which the program did not end within its time limit
(`--timeout`), nor within four times that limit when it was run again without instrumentation. The stack shows where it was.

The files are none, those that the user has, those that an earlier input has left, or those that a loss of power during an earlier
input can leave. The finding says which, and has the path of the input.

## Why is this bad?

On files that a loss of power leaves, the program cannot be restarted. On other files, an input can make the program unavailable.

## Example

```c
for (uint64_t at = pool->head; at; at = node(at)->next)     /* a ring that a loss of power has left */
    count++;
```

## Fix

Order the stores so that no list is a ring even for a moment, or limit the number of steps by what the pool can hold. A program that is
merely slow needs a longer `--timeout`.
",
};
