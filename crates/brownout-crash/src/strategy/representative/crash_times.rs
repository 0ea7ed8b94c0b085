//! When a crash is tried during an update behaviour: from its first store until all its stores are guaranteed, or to the end of the run.
//!
//! A store can only be lost before it is guaranteed, so the last failure point before each guarantee of the behaviour is a crash time:
//! everything that other code has stored until then is there too. The first failure point after its last store is another one, and, if
//! there is a long time between the two, some in between: a field that is not flushed may do harm only while another object refers to it.

use brownout_model::{PersistOrder, StoreNumber, Time};

use crate::failure_point::FailurePoint;

/// Crash times of one behaviour. If there are more guarantees, those at its end count.
const MOST_TIMES: usize = 12;

/// The failure points at which crashes in a behaviour with these stores are tried, in the order of the run.
pub(super) fn crash_times(
    stores: &[StoreNumber],
    order: &PersistOrder,
    points: &[FailurePoint],
) -> Vec<FailurePoint> {
    let stores = stores.iter().map(|&store| order.store(store));
    let Some(last_issued) = stores.clone().map(|store| store.issued).max() else {
        return Vec::new();
    };
    // The number of failure points before which everything up to this time has taken effect.
    let up_to = |time: Time| {
        let is_reached = |point: &FailurePoint| point.occurrence.event.0 <= time.0;
        points.partition_point(is_reached)
    };
    let mut chosen: Vec<usize> = Vec::new();
    for store in stores {
        let end = store.guaranteed().map_or(points.len(), up_to);
        // The crash is before the event: a failure point at the guarantee itself is early enough.
        if let Some(last) = end.checked_sub(1)
            && last >= up_to(store.issued)
        {
            chosen.push(last);
        }
    }
    chosen.sort_unstable();
    chosen.dedup();
    let excess = chosen.len().saturating_sub(MOST_TIMES);
    chosen.drain(..excess);
    let first = up_to(last_issued);
    if let Some(&last) = chosen.last() {
        let between = (0..usize::BITS).map(|doubling| first + (1 << doubling) - 1);
        chosen.extend(between.take_while(|&point| point < last));
    }
    chosen.sort_unstable();
    chosen.dedup();
    chosen.into_iter().map(|point| points[point]).collect()
}
