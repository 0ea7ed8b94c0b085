//! The states between stores: crashes inside an update of several stores without a flush or fence between them.
//!
//! Program order is a legal persist order, so each state between two stores can be left by a crash. There are many of them, and most
//! look like the failure points on both sides. So one of each kind is tried before all others: states before the same
//! store are one kind if the stores since the last failure point have equal [features](super::novelty). Of these, states in
//! operations come first, then those in the target's own code, then those inside libraries.
//!
//! Each state has the failure points on both sides: if one of them fails alike, the state is no finding of its own.
//!
//! Memory is bounded: of a store that is executed very often, ever [fewer](Thinning) occurrences are considered.

use brownout_trace::selection::Selection;
use brownout_trace::{Definitions, Event};
use rustc_hash::FxHashMap;

use super::occurrences::Occurrences;
use super::thinning::Thinning;
use crate::failure_point::{FailurePoint, FailurePoints, Granularity, PointKind, Scope, StackId};
use crate::symbols::Symbols;

/// Finds the states between stores. Takes every event, in order.
pub struct StoreStates {
    points: FailurePoints,
    occurrences: Occurrences,
    thinning: Thinning,
    count: u64,
    surroundings: Surroundings,
    /// Whether a state is considered since the last failure point.
    is_open: bool,
    before: Option<FailurePoint>,
}

/// States in the order in which to try them.
pub struct OrderedStates {
    /// One of each kind.
    pub different: Vec<FailurePoint>,
    pub rest: Vec<FailurePoint>,
    pub count: u64,
    pub surroundings: Surroundings,
}

impl StoreStates {
    /// `None` if stores are failure points anyway.
    pub fn new(scope: &Scope) -> Option<Self> {
        Some(Self {
            points: points_at_stores(scope)?,
            occurrences: Occurrences::default(),
            thinning: Thinning::default(),
            count: 0,
            surroundings: Surroundings::default(),
            is_open: false,
            before: None,
        })
    }

    /// Takes the next event, and the failure point that precedes it, if there is one and it is wanted.
    pub fn observe(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        selection: &Selection,
        symbols: &mut dyn Symbols,
        point: Option<FailurePoint>,
    ) {
        if let Some(point) = point {
            if std::mem::take(&mut self.is_open) {
                self.surroundings.0.push((self.before, Some(point)));
            }
            self.before = Some(point);
        }
        match self.points.observe(event, definitions, selection, symbols) {
            Some(state) if state.kind == PointKind::Store => self.reach(&state),
            Some(point) => self.occurrences.end_interval(&point),
            None => {}
        }
        self.occurrences.observe(event);
    }

    fn reach(&mut self, state: &FailurePoint) {
        self.count += 1;
        if self.thinning.considers(state.stack) {
            self.occurrences.reach_between(state);
            self.is_open = true;
        }
    }

    /// The states, in the order in which to try them.
    pub fn in_order(mut self, symbols: &mut dyn Symbols) -> OrderedStates {
        if self.is_open {
            self.surroundings.0.push((self.before, None));
        }
        let ordered = self.occurrences.in_order(&[]);
        let mut different = [ordered.first, ordered.novel].concat();
        let mut rest = ordered.rest;
        for states in [&mut different, &mut rest] {
            own_code_first(states, |state| *state, self.points.scope(), symbols);
        }
        OrderedStates {
            different,
            rest,
            count: self.count,
            surroundings: self.surroundings,
        }
    }
}

/// Finds failure points at each store, too; `None` if the user has asked for them, so that nothing is between them.
pub(crate) fn points_at_stores(scope: &Scope) -> Option<FailurePoints> {
    let points = || {
        FailurePoints::new(Scope {
            granularity: Granularity::Store,
            occurrences: 1,
            ..scope.clone()
        })
    };
    (scope.granularity != Granularity::Store).then(points)
}

/// Sorts states: those in operations first, then those in the target's own code, then those inside libraries.
pub(crate) fn own_code_first<T>(
    items: &mut [T],
    state: impl Fn(&T) -> FailurePoint,
    scope: &Scope,
    symbols: &mut dyn Symbols,
) {
    let has_operations = !scope.operations.is_empty();
    let mut of_library: FxHashMap<StackId, bool> = FxHashMap::default();
    items.sort_by_cached_key(|item| {
        let state = state(item);
        let outside = has_operations && !state.occurrence.operation.active;
        let library = state.stack.is_some_and(|stack| {
            let known = of_library.entry(stack);
            *known.or_insert_with(|| is_library(&symbols.frames(stack)))
        });
        (outside, library)
    });
}

/// Whether a library executes the store for itself. What the C library copies, it copies for its caller.
fn is_library(frames: &[brownout_report::Frame]) -> bool {
    frames.first().is_some_and(|frame| frame.is_library())
}

/// The failure points around the states that are considered, in the order of the trace.
#[derive(Debug, Default)]
pub struct Surroundings(Vec<(Option<FailurePoint>, Option<FailurePoint>)>);

impl Surroundings {
    /// The failure points before and after a state.
    pub fn of(&self, event: u64) -> impl Iterator<Item = FailurePoint> + use<> {
        let is_before = |point: Option<FailurePoint>| {
            point.is_some_and(|point| point.occurrence.event.0 <= event)
        };
        let at = self.0.partition_point(|&(_, after)| is_before(after));
        let (before, after) = self.0.get(at).copied().unwrap_or_default();
        let before = before.filter(|&point| is_before(Some(point)));
        [before, after].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use brownout_trace::EventIndex;

    use super::*;
    use crate::failure_point::Occurrence;
    use crate::operation::Operation;

    fn point(event: u64) -> Option<FailurePoint> {
        Some(FailurePoint {
            kind: PointKind::Fence,
            stack: None,
            occurrence: Occurrence {
                event: EventIndex(event),
                operation: Operation::default(),
            },
        })
    }

    #[test]
    fn a_state_lies_between_two_failure_points() {
        let surroundings = Surroundings(vec![
            (None, point(5)),
            (point(9), point(20)),
            (point(20), None),
        ]);
        let around = |event| -> Vec<u64> {
            let points = surroundings.of(event);
            points.map(|point| point.occurrence.event.0).collect()
        };
        assert_eq!(around(3), [5]);
        assert_eq!(around(12), [9, 20]);
        assert_eq!(around(30), [20]);
    }
}
