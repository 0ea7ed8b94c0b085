//! The rule `persistency-race`.

use brownout_report::{Category, RuleInfo, RulePolicy, RuleRepair, Severity};

/// A thread can act on data of another one that a crash can still lose.
pub static PERSISTENCY_RACE: RuleInfo = RuleInfo {
    id: "persistency-race",
    severity: Severity::Warning,
    category: Category::Race,
    pedantic: false,
    policy: RulePolicy {
        repair: RuleRepair::FlushAndFence,
        ..RulePolicy::NONE
    },
    summary: "another thread can load what a crash can still lose",
    explanation: "\
## What it does

Reports stores that another thread can load before they are durable: no lock that the load holds too is held from the store until
the fence that makes it durable, and nothing else orders the load. One run suffices, also if the accesses did not meet in it.

A finding says *observed* if a load of this run has read the store before it was durable, and *inferred* if locks and the order of
threads only allow it. It is a bug if the harm was observed, too: the reading thread made something durable that depends on what it
has read. Otherwise it is a warning, because a program can be designed to cope.

A load whose thread flushes and fences what it has read, before it stores anything, is not reported. Neither are stores to memory
that other threads do not know of yet (`--no-init-removal` reports them), nor accesses to locks.

## Why is this bad?

After a crash, what the reader did remains, and what it relied on is gone: an entry in a node that nothing refers to any more, or an
answer to a client about data that was never stored.

## Example

```c
pthread_mutex_lock(&lock);
pool->root = node;                  /* another thread can follow the pointer … */
pthread_mutex_unlock(&lock);
persist(&pool->root);               /* … and fill the node before the pointer is durable */
```

## Fix

Make the store durable before other threads can see it:

```c
pthread_mutex_lock(&lock);
pool->root = node;
persist(&pool->root);
pthread_mutex_unlock(&lock);
```

Readers without a lock have to persist what they read before they act on it, or the writer has to publish with a
store that is durable before readers accept it, such as a flag that is set after the data is durable.
",
};
