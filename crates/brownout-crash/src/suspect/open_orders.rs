//! Stores that are not guaranteed yet may persist in any order: which of these orders are tried.
//!
//! At a failure point, the units that were stored to last and are not guaranteed are lost, one at a time, while all others are
//! present: what the processor leaves if it writes back the others first. A unit that is stored to last of all is left out; to lose it
//! is much like program order a little earlier. Whether a failure point and the last store to the unit were combined before
//! decides what is tried first: the first occurrence of each combination, then the second, the fourth and so on.
//!
//! Can miss: orders in which several units are lost, or a part of what was stored to one; units that were not among the last
//! [`RECENT`] that were stored to.

use std::collections::VecDeque;

use brownout_trace::EventIndex;
use rustc_hash::FxHashMap;

use super::SuspectSite;
use super::live_store::{Loss, UnitKey};
use crate::failure_point::{FailurePoint, PointKind, StackId};
use crate::persistency::GuaranteedPart;

/// Units that are followed.
const RECENT: usize = 16;
/// Occurrences of one combination that are tried: the first, second, fourth, …
const DOUBLINGS: u32 = 6;
/// Orders that are tried.
const MOST: usize = 1 << 14;

/// A unit that is not guaranteed.
#[derive(Clone, Copy, Debug)]
struct OpenUnit {
    unit: UnitKey,
    /// The last store to it.
    newest: EventIndex,
    site: SuspectSite,
}

/// A failure point, and the last store to the unit that is lost.
type Combination = (PointKind, Option<StackId>, SuspectSite);

/// Follows open orders through a run.
#[derive(Debug, Default)]
pub(super) struct OpenOrders {
    /// The newest last.
    recent: VecDeque<OpenUnit>,
    reached: FxHashMap<Combination, u64>,
    /// With the number of doublings.
    losses: Vec<(u32, Loss)>,
}

impl OpenOrders {
    /// Something was stored to a unit.
    pub(super) fn store(&mut self, unit: UnitKey, newest: EventIndex, site: SuspectSite) {
        let known = self.recent.iter().position(|open| open.unit == unit);
        if let Some(known) = known {
            self.recent.remove(known);
        } else if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(OpenUnit { unit, newest, site });
    }

    /// Parts of stores have become guaranteed. `size` is that of a unit.
    pub(super) fn guaranteed(&mut self, parts: &[GuaranteedPart], size: u64) {
        for part in parts {
            let unit = (part.file, part.offset - part.offset % size);
            self.recent
                .retain(|open| open.unit != unit || open.newest != part.store);
        }
    }

    /// A failure point is reached, before the event that it precedes takes effect. `size` is that of a unit.
    pub(super) fn reach(&mut self, point: FailurePoint, size: u64) {
        let older = self.recent.len().saturating_sub(1);
        for open in self.recent.iter().take(older) {
            let combination = (point.kind, point.stack, open.site);
            let reached = self.reached.entry(combination).or_default();
            *reached += 1;
            let doublings = reached.ilog2();
            let is_tried = reached.is_power_of_two() && doublings < DOUBLINGS;
            if is_tried && self.losses.len() < MOST {
                let (file, start) = open.unit;
                let loss = Loss {
                    point,
                    store: None,
                    units: (file, start..start + size),
                };
                self.losses.push((doublings, loss));
            }
        }
    }

    /// The losses to try: the first of each combination, and the others in order.
    pub(super) fn losses(mut self) -> [Vec<Loss>; 2] {
        self.losses.sort_by_key(|&(doublings, _)| doublings);
        let firsts = self
            .losses
            .partition_point(|&(doublings, _)| doublings == 0);
        let others = self.losses.split_off(firsts);
        [self.losses, others].map(|losses| losses.into_iter().map(|(_, loss)| loss).collect())
    }
}

#[cfg(test)]
mod tests {
    use brownout_trace::{AppPc, ContextId, FileId, ProcessId};

    use super::*;
    use crate::failure_point::Occurrence;
    use crate::operation::Operation;

    fn site(pc: u64) -> SuspectSite {
        SuspectSite {
            process: ProcessId(1),
            pc: AppPc(pc),
            context: ContextId::ROOT,
        }
    }

    fn point(event: u64) -> FailurePoint {
        FailurePoint {
            kind: PointKind::Flush,
            stack: None,
            occurrence: Occurrence {
                event: EventIndex(event),
                operation: Operation::default(),
            },
        }
    }

    fn lost(orders: OpenOrders) -> [Vec<(u64, u64)>; 2] {
        let lost = |loss: Loss| (loss.point.occurrence.event.0, loss.units.1.start);
        orders
            .losses()
            .map(|losses| losses.into_iter().map(lost).collect())
    }

    #[test]
    fn each_open_unit_but_the_newest_is_lost_once_for_each_combination() {
        let mut orders = OpenOrders::default();
        let unit = |line: u64| (FileId(0), 64 * line);
        for round in 0..3 {
            let at = 10 * round;
            orders.store(unit(0), EventIndex(at), site(1));
            orders.store(unit(1), EventIndex(at + 1), site(2));
            orders.store(unit(2), EventIndex(at + 2), site(3));
            orders.reach(point(at + 3), 64);
            let part = GuaranteedPart {
                store: EventIndex(at),
                file: FileId(0),
                offset: 0,
            };
            orders.guaranteed(&[part], 64);
        }
        // The second occurrences follow, the third ones are left out.
        assert_eq!(lost(orders), [[(3, 0), (3, 64)], [(13, 0), (13, 64)]]);
    }

    #[test]
    fn what_is_guaranteed_is_not_lost() {
        let mut orders = OpenOrders::default();
        orders.store((FileId(0), 0), EventIndex(1), site(1));
        orders.store((FileId(0), 64), EventIndex(2), site(2));
        let part = GuaranteedPart {
            store: EventIndex(1),
            file: FileId(0),
            offset: 0,
        };
        orders.guaranteed(&[part], 64);
        orders.reach(point(3), 64);
        assert_eq!(lost(orders), [[], []]);
    }
}
