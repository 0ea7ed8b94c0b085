//! Stores that are not guaranteed yet may persist in any order: which of these orders are tried.
//!
//! At a failure point, the units that were stored to last and are not guaranteed are lost, one at a time, while all others are
//! present: what the processor leaves if it writes back the others first. A unit that is stored to last of all is left out; to lose it
//! is much like program order a little earlier, unless a file has got another name or was written by a system call since. The same is
//! done at states between stores: a wrong order inside an update can be right again at the next failure point, as when the flag of an
//! undo log is not durable while the first of several stores in place is. The words of a [wide store](super::wide_stores) have no order
//! either: it is torn at the first instant after it.
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
use super::wide_stores::WideStores;
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

/// What is lost of a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct LostPart {
    pub(super) unit: UnitKey,
    /// If a store is torn, its words that are there.
    pub(super) torn: Option<(EventIndex, u8)>,
    /// The last store to the unit.
    pub(super) site: SuspectSite,
    pub(super) stack: Option<StackId>,
}

/// An instant, the last store to the unit that is lost, and the words of it that are there.
type Combination = (PointKind, Option<StackId>, SuspectSite, u8);

/// A unit that is lost at an instant.
#[derive(Clone, Copy, Debug)]
struct OpenOrder {
    point: FailurePoint,
    lost: LostPart,
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
    /// Stores before this event may be lost though nothing was stored since.
    overtaken: EventIndex,
    /// Since the last instant; `None` if no crash tears a store.
    wide: Option<WideStores>,
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
    pub(super) fn new(size: u64, can_tear: bool) -> Self {
        Self {
            size,
            recent: VecDeque::new(),
            overtaken: EventIndex(0),
            wide: can_tear.then(WideStores::default),
            at_points: OrderSample::default(),
            between_stores: OrderSample::default(),
            states: Thinning::default(),
        }
    }

    /// Bytes up to `last` were stored to, by a locked instruction or another.
    pub(super) fn store(
        &mut self,
        (file, first): UnitKey,
        last: u64,
        newest: EventIndex,
        (site, stack): (SuspectSite, Option<StackId>),
        is_locked: bool,
    ) {
        if let Some(wide) = self.wide.as_mut().filter(|_| !is_locked) {
            wide.store((file, first), last, newest, (site, stack));
        }
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

    /// Before this event, or by it, the files were changed by other means than a store: one of them has another name, or a system
    /// call has written to it. A crash keeps that, whatever it loses.
    pub(super) fn overtake(&mut self, event: EventIndex) {
        self.overtaken = event;
    }

    /// A failure point is reached, before the event that it precedes takes effect.
    pub(super) fn reach(&mut self, point: FailurePoint) {
        for lost in losable(&self.recent, self.overtaken, &mut self.wide) {
            self.at_points.add(point, lost);
        }
    }

    /// A state between stores is reached, before the next store takes effect.
    pub(super) fn reach_between(&mut self, state: FailurePoint) {
        let is_considered = self.states.considers(state.stack);
        for lost in losable(&self.recent, self.overtaken, &mut self.wide) {
            if is_considered {
                self.between_stores.add(state, lost);
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

/// All units but the one that was stored to last, which is among them if it was overtaken; and wide stores in part.
fn losable(
    recent: &VecDeque<OpenUnit>,
    overtaken: EventIndex,
    wide: &mut Option<WideStores>,
) -> impl Iterator<Item = LostPart> {
    let last = recent.len().saturating_sub(1);
    let units = recent.iter().enumerate();
    let units = units.filter(move |(number, open)| *number < last || open.newest < overtaken);
    let units = units.map(|(_, open)| LostPart {
        unit: open.unit,
        torn: None,
        site: open.site,
        stack: open.stack,
    });
    units.chain(wide.iter_mut().flat_map(WideStores::take))
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
    fn add(&mut self, point: FailurePoint, lost: LostPart) {
        self.count += 1;
        let words = lost.torn.map_or(0, |(_, words)| words);
        let combination = (point.kind, point.stack, lost.site, words);
        let reached = self.reached.entry(combination).or_default();
        *reached += 1;
        let level = match *reached {
            1 => 0,
            reached if reached.is_power_of_two() => 1,
            _ => 2,
        };
        self.levels[level].offer(OpenOrder {
            point,
            lost,
            doublings: reached.ilog2(),
        });
    }

    /// The first of each combination, and the others in order. `size` is that of a unit.
    fn losses(&self, size: u64) -> [Vec<Loss>; 2] {
        let [firsts, mut doubled, rest] = self.levels.each_ref().map(EvenSample::chosen);
        doubled.sort_by_key(|order| order.doublings);
        let loss = |order: OpenOrder| {
            let (file, start) = order.lost.unit;
            let torn = order.lost.torn;
            Loss {
                point: order.point,
                store: torn.map(|(store, _)| store),
                present_words: torn.map_or(0, |(_, words)| words),
                units: (file, start..start + size),
                stack: order.lost.stack,
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
        orders.store((FILE, offset), last, EventIndex(event), site, false);
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
        let mut orders = OpenOrders::new(64, true);
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
        let mut orders = OpenOrders::new(64, true);
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
        let mut orders = OpenOrders::new(64, true);
        store(&mut orders, 0, 1);
        store(&mut orders, 1, 2);
        orders.guaranteed(&[part(0, 1)]);
        orders.reach(point(PointKind::Flush, 3));
        assert_eq!(lost(orders.losses().at_points), [[], []]);
    }

    #[test]
    fn the_newest_unit_is_lost_if_a_file_was_renamed_since() {
        let mut orders = OpenOrders::new(64, true);
        store(&mut orders, 0, 1);
        orders.overtake(EventIndex(2));
        orders.reach(point(PointKind::Flush, 3));
        store(&mut orders, 1, 4);
        orders.reach(point(PointKind::Flush, 5));
        let [first, others] = lost(orders.losses().at_points);
        assert_eq!(first, [(3, 0)]);
        assert_eq!(others, [(5, 0)]);
    }

    #[test]
    fn a_wide_store_is_torn_at_the_next_instant_alone() {
        let mut orders = OpenOrders::new(64, true);
        for is_locked in [false, true] {
            let source = (site(0), None);
            orders.store((FILE, 16), 31, EventIndex(1), source, is_locked);
            orders.reach(point(PointKind::Flush, 2));
            orders.reach(point(PointKind::Fence, 3));
        }
        let [torn, others] = orders.losses().at_points;
        let torn: Vec<_> = torn
            .iter()
            .map(|loss| {
                (
                    loss.point.occurrence.event.0,
                    loss.store,
                    loss.present_words,
                )
            })
            .collect();
        let store = Some(EventIndex(1));
        assert_eq!(torn, [(2, store, 0b0100), (2, store, 0b1000)]);
        assert_eq!(others, [], "the locked instruction is not torn");
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let mut orders = OpenOrders::new(64, true);
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
