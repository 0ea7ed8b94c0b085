//! When a crash is tried during an update behaviour: from its first store until all its stores are guaranteed, or to the end of the run.
//!
//! A store can only be lost before it is guaranteed, so the last failure point before a guarantee of the behaviour is a crash time:
//! everything that other code has stored until then is there too. Of each code that stores for the behaviour, the first and the last
//! guarantee count: a behaviour that never ends, because a field is never flushed, holds what many operations do. The first failure point
//! after the last store is another time, and, if there is a long time between it and the last guarantee, some in between: a field that is
//! not flushed may do harm only while another object refers to it.
//!
//! Deviation from Squint, which tries all instants of a behaviour: if there are very many, some are chosen, and the behaviour counts as
//! sampled.

use std::collections::{BTreeMap, BTreeSet};

use brownout_model::{PersistOrder, StoreNumber, Time};

use crate::failure_point::FailurePoint;

/// Guarantees at the end of a behaviour that count, whichever code has stored.
const MOST_AT_END: usize = 12;
/// Crash times that are chosen because of the code that stores.
const MOST_OF_CODE: usize = 256;

/// The crash times of a behaviour.
#[derive(Debug, Default)]
pub(super) struct CrashTimes {
    /// The failure points, in the order of the run.
    pub(super) points: Vec<FailurePoint>,
    /// Whether there are more guarantees than those that count.
    pub(super) is_sample: bool,
}

/// When stores of one code can be lost, as numbers of failure points.
struct CodeTimes {
    first: usize,
    last: usize,
    /// The first one after the last store that is never guaranteed: at the end of the run, what it does may be overwritten.
    after_last: Option<usize>,
}

/// The failure points at which crashes in a behaviour with these stores are tried.
pub(super) fn crash_times(
    numbers: &[StoreNumber],
    code_of: impl Fn(StoreNumber) -> u32,
    order: &PersistOrder,
    points: &[FailurePoint],
) -> CrashTimes {
    let stores = numbers.iter().map(|&store| order.store(store));
    let Some(last_issued) = stores.map(|store| store.issued).max() else {
        return CrashTimes::default();
    };
    // The number of failure points before which everything up to this time has taken effect.
    let up_to = |time: Time| {
        let is_reached = |point: &FailurePoint| point.occurrence.event.0 <= time.0;
        points.partition_point(is_reached)
    };
    let mut guarantees: BTreeSet<usize> = BTreeSet::new();
    let mut by_code: BTreeMap<u32, CodeTimes> = BTreeMap::new();
    for &number in numbers {
        let store = order.store(number);
        let issued = up_to(store.issued);
        let end = store.guaranteed().map_or(points.len(), up_to);
        // The crash is before the event: a failure point at the guarantee itself is early enough.
        let Some(last) = end.checked_sub(1).filter(|&last| last >= issued) else {
            continue;
        };
        guarantees.insert(last);
        let times = by_code.entry(code_of(number)).or_insert(CodeTimes {
            first: last,
            last,
            after_last: None,
        });
        times.first = times.first.min(last);
        times.last = times.last.max(last);
        if store.guaranteed().is_none() {
            times.after_last = Some(issued);
        }
    }
    let at_end = guarantees.iter().rev().take(MOST_AT_END);
    let mut chosen: BTreeSet<usize> = at_end.copied().collect();
    // One time of each code first, in case that there are too many.
    let firsts = by_code.values().map(|times| times.first);
    let lasts = by_code.values().map(|times| times.last);
    let after = by_code.values().filter_map(|times| times.after_last);
    for time in firsts.chain(lasts).chain(after) {
        if chosen.len() == MOST_OF_CODE {
            break;
        }
        chosen.insert(time);
    }
    let is_sample = !guarantees.is_subset(&chosen);
    let first = up_to(last_issued);
    if let Some(&last) = chosen.last() {
        let between = (0..usize::BITS).map(|doubling| first + (1 << doubling) - 1);
        chosen.extend(between.take_while(|&point| point < last));
    }
    CrashTimes {
        points: chosen.into_iter().map(|point| points[point]).collect(),
        is_sample,
    }
}
