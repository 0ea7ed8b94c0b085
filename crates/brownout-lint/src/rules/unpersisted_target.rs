//! `unpersisted-target`: a pointer became persistent before what it points to.
//!
//! The order that recovery relies on most: whatever can be reached is complete. Witcher derives such orders from how the
//! program reads its data; here the values of the stores show which of them are pointers. A pointer is an address inside a
//! mapping of the file, a libpmemobj object identifier, or an offset in the file. Numbers that are no offsets are common, so
//! an offset counts only if it is stored alone, right after an object of at least two words that begins exactly there, and only if
//! all numbers that the same instruction stores lead to where something was stored.
//!
//! A warning: a log entry that leads to the object it undoes, a slot that a later store selects or the end of an arena is a pointer that
//! recovery does not follow, and the trace does not show that. Crash testing tries it, and it is a bug if that confirms it.
//!
//! The stores that are late would be `delayed-persist`, or `transient-data` if nobody ever flushes them. With the pointer, the
//! order is known to matter, and they are not reported a second time. Stores that are lost although their line is
//! flushed at other times are `missing-flush` and reported by that rule alone.
//!
//! Can miss: pointers between files; targets that another thread stored; targets whose first line is guaranteed and only a
//! later one is not; pointers in an object that other pointers refer to later; pointers beyond a limit that wait for a fence of their
//! thread, which are counted and reported. Never reports objects that point into
//! themselves, pointers to what was stored afterwards, pointers inside objects that are linked only when all is persistent, nor
//! stores that a transaction has logged or that a library makes for its own purposes.

use brownout_report::{Category, Mistake, RuleInfo, RulePolicy, RuleRepair, Severity, TriedLoss};

use crate::raw_finding::RawValue;
use crate::rule::Rule;
use crate::rule_inputs::{UnpersistedTarget, file};
use crate::tally::{Key, Occurrence, Tally};

#[derive(Default)]
pub(crate) struct UnpersistedTargets;

impl Rule for UnpersistedTargets {
    const INFO: &'static RuleInfo = &RuleInfo {
        id: "unpersisted-target",
        severity: Severity::Warning,
        category: Category::Ordering,
        pedantic: false,
        policy: RulePolicy {
            mistake: Mistake::UnpersistedTarget { clarity: 1 },
            tried: Some(TriedLoss::Stores { forever: false }),
            repair: RuleRepair::FlushTarget,
            ..RulePolicy::NONE
        },
        summary: "a pointer became persistent before what it points to",
        explanation: "\
## What it does

Reports pointers in persistent memory that are persistent while bytes which the program stored into their target before
are not. A pointer is an address inside the mapped file, an offset in the file, or an object identifier of libpmemobj. The
target becomes persistent later, or its lines are never flushed in the whole run.

A number that is the offset of an object may also be a count that has this value by chance. If some of the numbers that the
same code stores cannot be offsets of objects, none of them is reported.

It is a warning, because recovery need not follow every pointer: an entry of an undo log leads to an object that recovery
overwrites, and a second root counts only once it is selected. With `--recover`, crash testing tries the crash in which the target is
lost; if recovery then fails, the finding is a bug.

## Why is this bad?

After a crash between the two, recovery follows the pointer to an object that is not there: it holds zeros, or what
the memory held before. The program works as long as nothing fails, because the object is in the cache.

## Example

```c
node->value = 7;
node->next = list->head;
list->head = node;
pmem_persist(&list->head, sizeof list->head);
pmem_persist(node, sizeof *node);           /* too late: the list already leads here */
```

## Fix

Make the object persistent before the pointer to it is stored:

```c
node->value = 7;
node->next = list->head;
pmem_persist(node, sizeof *node);
list->head = node;
pmem_persist(&list->head, sizeof list->head);
```

With libpmemobj, do both in one transaction, or allocate with `pmemobj_alloc` and a constructor. If recovery checks the
object before it trusts the pointer (a checksum), suppress the finding with the reason.
",
    };

    fn unpersisted_target(&mut self, pointer: &UnpersistedTarget<'_>, found: &mut Tally) {
        let key = Key::single(pointer.site, Some(file(pointer.location)));
        found.add_many(key, pointer.count, pointer.time, || {
            let (fence, fence_time) = pointer.fence;
            let bytes: u32 = pointer
                .target
                .iter()
                .map(|store| store.bytes.0.count_ones())
                .sum();
            let stored = match pointer.is_certain {
                true => "the pointer stored here",
                false => "the number stored here, which may be the offset of an object,",
            };
            let (bytes, does) = match bytes {
                1 => ("1 byte".to_owned(), "does"),
                _ => (format!("{bytes} bytes"), "do"),
            };
            let lost = match pointer.guaranteed {
                Some(_) => format!("{does} so only later"),
                None => format!("never {does}"),
            };
            let mut sites = vec![("pointer", pointer.site, pointer.time)];
            let mut unfenced_since = Vec::new();
            for store in pointer.target {
                let known = |&(_, site, _): &(_, _, _)| site == store.site;
                if !sites.iter().skip(1).any(known) {
                    sites.push(("store", store.site, store.time));
                    unfenced_since.push(store.unfenced_since);
                }
            }
            sites.push(("fence", fence, fence_time));
            Occurrence {
                message: format!(
                    "{stored} becomes persistent, but {bytes} stored earlier to its target {lost}"
                )
                .into(),
                sites,
                bytes: pointer
                    .target
                    .iter()
                    .map(|store| (store.line, store.bytes))
                    .collect(),
                values: vec![RawValue {
                    name: "pointer",
                    bytes: pointer.value.to_le_bytes().to_vec(),
                    len: 8,
                }],
                unfenced_since,
            }
        });
    }
}
