//! Which stores of an update behaviour a crash can lose at each of its crash times.

use std::collections::BTreeSet;

use brownout_model::{StoreNumber, Time};
use rustc_hash::FxHashSet;

use super::crash_times::crash_times;
use crate::failure_point::FailurePoint;
use crate::update_behaviour::RunStores;

/// Stores of a behaviour that a crash loses, at most. If there are more, the earlier ones are present: a lock word that is never flushed is
/// updated as long as the program runs.
pub(super) const MOST_LOSABLE: usize = 1 << 12;

/// A time of a crash in a behaviour.
#[derive(Debug)]
pub(super) struct LosableStores {
    pub(super) point: FailurePoint,
    /// What a crash then can lose, in the order of issue.
    pub(super) stores: Vec<StoreNumber>,
    /// Whether there are more, which are taken to be present.
    pub(super) is_cut: bool,
    /// Whether stores of some code are among them that are not losable at later crash times.
    pub(super) has_other_code: bool,
}

/// All crash times of a behaviour.
#[derive(Debug, Default)]
pub(super) struct BehaviourTimes {
    pub(super) times: Vec<LosableStores>,
    /// Whether crashes at other times leave something else.
    pub(super) is_sample: bool,
    /// The code whose stores are lost.
    pub(super) code: FxHashSet<u32>,
}

impl BehaviourTimes {
    /// The crash times of the behaviour with these stores, which are in the order of issue.
    pub(super) fn of(numbers: &[StoreNumber], stores: &RunStores) -> Self {
        let code_of = |number| stores.site(stores.stored(number).site).caller;
        let chosen = crash_times(numbers, code_of, &stores.order, &stores.points);
        let mut found = Self {
            times: losable(numbers, stores, &chosen.points),
            is_sample: chosen.is_sample,
            code: FxHashSet::default(),
        };
        for time in found.times.iter_mut().rev() {
            let code = time.stores.iter().map(|&number| code_of(number));
            // Not lazily: all of them are lost.
            let new = code.filter(|&code| found.code.insert(code)).count();
            time.has_other_code = new > 0;
            found.is_sample |= time.is_cut;
        }
        found
    }
}

/// What crashes before these failure points can lose of some stores.
fn losable(
    numbers: &[StoreNumber],
    stores: &RunStores,
    points: &[FailurePoint],
) -> Vec<LosableStores> {
    let times = points.iter().map(|&point| LosableStores {
        point,
        stores: Vec::new(),
        is_cut: false,
        has_other_code: false,
    });
    let mut times: Vec<LosableStores> = times.collect();
    // The first crash time after an event.
    let after = |time: Time| points.partition_point(|point| point.occurrence.event.0 <= time.0);
    let mut open: BTreeSet<usize> = (0..times.len()).collect();
    for &number in numbers.iter().rev() {
        let store = stores.order.store(number);
        let until = store.guaranteed().map_or(times.len(), after);
        let from = after(store.issued).min(until);
        let during: Vec<usize> = open.range(from..until).copied().collect();
        for time in during {
            let known = &mut times[time];
            if known.stores.len() == MOST_LOSABLE {
                known.is_cut = true;
                open.remove(&time);
            } else {
                known.stores.push(number);
            }
        }
    }
    for time in &mut times {
        time.stores.reverse();
    }
    times
}
