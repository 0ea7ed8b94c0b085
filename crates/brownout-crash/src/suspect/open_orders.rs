//! Stores that are not guaranteed yet may persist in any order: which of these orders are tried.
//!
//! At a failure point, the units that were stored to last and are not guaranteed are lost, one at a time, while all others are
//! present: what the processor leaves if it writes back the others first. A unit that is stored to last of all is left out; to lose it
//! is much like program order a little earlier. The same is done at states between stores: a wrong order inside an update
//! can be right again at the next failure point, as when the flag of an undo log is not durable while the first of several
//! stores in place is.
//!
//! Whether an instant and the last store to the unit were combined before decides what is tried first: the first occurrence of each
//! combination, then the second, the fourth and so on, then all others.
//!
//! Memory is bounded: an even [sample](EvenSample) is tried if there are too many, and a state between stores that is reached
//! very often is considered ever [more rarely](Thinning). All are counted.
//!
//! Can miss: orders in which several units are lost, or a part of what was stored to one; units that were not among the last
//! [`RECENT`] that were stored to; units with very many stores that are not guaranteed.

use std::collections::VecDeque;

use brownout_trace::EventIndex;
use rustc_hash::FxHashMap;

use super::SuspectSite;
use super::live_store::{Loss, UnitKey};
use crate::even_sample::EvenSample;
use crate::failure_point::{FailurePoint, PointKind, StackId};
use crate::persistency::GuaranteedPart;
use crate::strategy::Thinning;

/// Units that are followed.
const RECENT: usize = 16;
/// First occurrences that are tried, second, fourth, … ones, and others.
const MOST: [usize; 3] = [1 << 13, 1 << 12, 1 << 12];

/// A unit that is not guaranteed.
#[derive(Clone, Copy, Debug)]
struct OpenUnit {
    unit: UnitKey,
    /// The last store to it.
    newest: EventIndex,
    site: SuspectSite,
    stack: Option<StackId>,
}

/// An instant, and the last store to the unit that is lost.
type Combination = (PointKind, Option<StackId>, SuspectSite);

/// A unit that is lost at an instant.
#[derive(Clone, Copy, Debug)]
struct OpenOrder {
    point: FailurePoint,
    unit: UnitKey,
    stack: Option<StackId>,
    /// How often the combination was reached before, as a power of two.
    doublings: u32,
}

/// Follows open orders through a run.
#[derive(Debug)]
pub(super) struct OpenOrders {
    /// The size of a unit.
    size: u64,
    /// The newest last.
    recent: VecDeque<OpenUnit>,
    at_points: OrderSample,
    between_stores: OrderSample,
    states: Thinning,
}

/// The open orders to try.
#[derive(Debug, Default)]
pub(super) struct OrderLosses {
    /// At failure points: one of each combination, and the others in order.
    pub(super) at_points: [Vec<Loss>; 2],
    /// At states between stores, in the same way.
    pub(super) between_stores: [Vec<Loss>; 2],
    /// How many there are that are not among them.
    pub(super) left_out: u64,
}

impl OpenOrders {
    pub(super) fn new(size: u64) -> Self {
        Self {
            size,
            recent: VecDeque::new(),
            at_points: OrderSample::default(),
            between_stores: OrderSample::default(),
            states: Thinning::default(),
        }
    }

    /// Bytes up to `last` were stored to.
    pub(super) fn store(
        &mut self,
        (file, first): UnitKey,
        last: u64,
        newest: EventIndex,
        (site, stack): (SuspectSite, Option<StackId>),
    ) {
        for offset in [first, last] {
            let unit = (file, offset - offset % self.size);
            let known = self.recent.iter().position(|open| open.unit == unit);
            if let Some(known) = known {
                self.recent.remove(known);
            } else if self.recent.len() == RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back(OpenUnit {
                unit,
                newest,
                site,
                stack,
            });
        }
    }

    /// Parts of stores have become guaranteed.
    pub(super) fn guaranteed(&mut self, parts: &[GuaranteedPart]) {
        for part in parts {
            let unit = (part.file, part.offset - part.offset % self.size);
            self.recent
                .retain(|open| open.unit != unit || open.newest != part.store);
        }
    }

    /// A failure point is reached, before the event that it precedes takes effect.
    pub(super) fn reach(&mut self, point: FailurePoint) {
        for open in older(&self.recent) {
            self.at_points.add(point, open);
        }
    }

    /// A state between stores is reached, before the next store takes effect.
    pub(super) fn reach_between(&mut self, state: FailurePoint) {
        let is_considered = self.states.considers(state.stack);
        for open in older(&self.recent) {
            if is_considered {
                self.between_stores.add(state, open);
            } else {
                self.between_stores.count += 1;
            }
        }
    }

    /// The losses to try.
    pub(super) fn losses(self) -> OrderLosses {
        let counts = [&self.at_points, &self.between_stores].map(|orders| orders.count);
        let [at_points, between_stores] =
            [self.at_points, self.between_stores].map(|orders| orders.losses(self.size));
        let chosen = at_points.iter().chain(&between_stores).map(Vec::len);
        OrderLosses {
            left_out: counts.iter().sum::<u64>() - chosen.sum::<usize>() as u64,
            at_points,
            between_stores,
        }
    }
}

/// All units but the one that was stored to last.
fn older(recent: &VecDeque<OpenUnit>) -> impl Iterator<Item = &OpenUnit> {
    recent.iter().take(recent.len().saturating_sub(1))
}

/// The open orders of one kind of instant that are tried.
#[derive(Debug)]
struct OrderSample {
    reached: FxHashMap<Combination, u64>,
    /// First occurrences of combinations, second, fourth, … ones, and others.
    levels: [EvenSample<OpenOrder>; 3],
    /// All that were reached.
    count: u64,
}

impl Default for OrderSample {
    fn default() -> Self {
        Self {
            reached: FxHashMap::default(),
            levels: MOST.map(EvenSample::new),
            count: 0,
        }
    }
}

impl OrderSample {
    fn add(&mut self, point: FailurePoint, open: &OpenUnit) {
        self.count += 1;
        let combination = (point.kind, point.stack, open.site);
        let reached = self.reached.entry(combination).or_default();
        *reached += 1;
        let level = match *reached {
            1 => 0,
            reached if reached.is_power_of_two() => 1,
            _ => 2,
        };
        self.levels[level].offer(OpenOrder {
            point,
            unit: open.unit,
            stack: open.stack,
            doublings: reached.ilog2(),
        });
    }

    /// The first of each combination, and the others in order. `size` is that of a unit.
    fn losses(&self, size: u64) -> [Vec<Loss>; 2] {
        let [firsts, mut doubled, rest] = self.levels.each_ref().map(EvenSample::chosen);
        doubled.sort_by_key(|order| order.doublings);
        let loss = |order: OpenOrder| {
            let (file, start) = order.unit;
            Loss {
                point: order.point,
                store: None,
                units: (file, start..start + size),
                stack: order.stack,
            }
        };
        let others = doubled.into_iter().chain(rest);
        [
            firsts.into_iter().map(loss).collect(),
            others.map(loss).collect(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use brownout_trace::{AppPc, ContextId, FileId, ProcessId};

    use super::*;
    use crate::failure_point::Occurrence;
    use crate::operation::Operation;

    const FILE: FileId = FileId(0);

    fn site(pc: u64) -> SuspectSite {
        SuspectSite {
            process: ProcessId(1),
            pc: AppPc(pc),
            context: ContextId::ROOT,
        }
    }

    fn point(kind: PointKind, event: u64) -> FailurePoint {
        FailurePoint {
            kind,
            stack: None,
            occurrence: Occurrence {
                event: EventIndex(event),
                operation: Operation::default(),
            },
        }
    }

    fn store(orders: &mut OpenOrders, line: u64, event: u64) {
        let offset = 64 * line;
        let last = offset + 7;
        let site = (site(line), None);
        orders.store((FILE, offset), last, EventIndex(event), site);
    }

    fn part(line: u64, store: u64) -> GuaranteedPart {
        GuaranteedPart {
            store: EventIndex(store),
            file: FILE,
            offset: 64 * line,
        }
    }

    /// The event and the line of each loss.
    fn lost(losses: [Vec<Loss>; 2]) -> [Vec<(u64, u64)>; 2] {
        let lost = |loss: Loss| (loss.point.occurrence.event.0, loss.units.1.start / 64);
        losses.map(|losses| losses.into_iter().map(lost).collect())
    }

    #[test]
    fn each_open_unit_but_the_newest_is_lost_and_first_combinations_come_first() {
        let mut orders = OpenOrders::new(64);
        for round in 0..5 {
            let at = 10 * round;
            store(&mut orders, 0, at);
            store(&mut orders, 1, at + 1);
            store(&mut orders, 2, at + 2);
            orders.reach(point(PointKind::Flush, at + 3));
            orders.guaranteed(&[part(0, at), part(1, at + 1), part(2, at + 2)]);
        }
        let losses = orders.losses();
        assert_eq!(losses.left_out, 0);
        let [first, others] = lost(losses.at_points);
        assert_eq!(first, [(3, 0), (3, 1)]);
        // The second and the fourth come before the third and the fifth.
        let events: Vec<u64> = others.iter().map(|&(event, _)| event).collect();
        assert_eq!(events, [13, 13, 33, 33, 23, 23, 43, 43]);
    }

    #[test]
    fn orders_between_stores_are_kept_apart_from_those_at_failure_points() {
        let mut orders = OpenOrders::new(64);
        store(&mut orders, 0, 1);
        orders.reach_between(point(PointKind::Store, 2));
        store(&mut orders, 1, 2);
        orders.reach_between(point(PointKind::Store, 3));
        store(&mut orders, 2, 3);
        orders.reach(point(PointKind::Flush, 4));
        let losses = orders.losses();
        assert_eq!(lost(losses.between_stores), [vec![(3, 0)], vec![]]);
        assert_eq!(lost(losses.at_points), [vec![(4, 0), (4, 1)], vec![]]);
    }

    #[test]
    fn what_is_guaranteed_is_not_lost() {
        let mut orders = OpenOrders::new(64);
        store(&mut orders, 0, 1);
        store(&mut orders, 1, 2);
        orders.guaranteed(&[part(0, 1)]);
        orders.reach(point(PointKind::Flush, 3));
        assert_eq!(lost(orders.losses().at_points), [[], []]);
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let mut orders = OpenOrders::new(64);
        store(&mut orders, 0, 0);
        store(&mut orders, 1, 1);
        let rounds = 20_000;
        for event in 0..rounds {
            orders.reach(point(PointKind::Fence, event));
            orders.reach_between(point(PointKind::Store, event));
        }
        let losses = orders.losses();
        let tried = losses.at_points.iter().chain(&losses.between_stores);
        let tried = tried.map(Vec::len).sum::<usize>() as u64;
        assert!(tried < rounds, "{tried}");
        assert_eq!(tried + losses.left_out, 2 * rounds);
    }
}
