//! The occurrences of one suspect that are followed, and what is lost of them.
//!
//! Memory is bounded: of many occurrences the first ones, the newest ones and a sample of those that are over are kept.

use std::collections::VecDeque;

use brownout_trace::EventIndex;

use super::live_store::{LiveStore, Loss, UnitKey};
use crate::even_sample::EvenSample;
use crate::failure_point::FailurePoint;
use crate::strategy::in_turns;

/// Occurrences that are followed at the same time: the first ones, and the newest ones.
const FIRST: usize = 2;
const NEWEST: usize = 3;
/// Occurrences that are over which are tried.
const SAMPLED: usize = 3;
/// Losses of the occurrences that lint has seen that come before all others.
const OWN: usize = 6;
/// Lines of one fence that are lost in turn.
pub(super) const VICTIMS: usize = 3;

/// An occurrence of a fence: the failure point before it, and the stores to lose, each in one unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFence {
    pub(super) point: FailurePoint,
    pub(super) victims: [Option<(UnitKey, EventIndex)>; VICTIMS],
}

/// What is known about one suspect.
#[derive(Debug)]
pub(super) struct Followed {
    /// The occurrences that lint has seen.
    own: Vec<LiveStore>,
    first: Vec<LiveStore>,
    newest: VecDeque<LiveStore>,
    over: EvenSample<LiveStore>,
    /// Whether the stores never become guaranteed, by what lint says.
    is_lost_forever: bool,
    pub(super) fences: EvenSample<OpenFence>,
    pub(super) seen: bool,
}

impl Followed {
    /// `is_lost_forever` if the stores never become guaranteed, by what lint says.
    pub(super) fn new(is_lost_forever: bool) -> Self {
        Self {
            own: Vec::new(),
            first: Vec::new(),
            newest: VecDeque::new(),
            over: EvenSample::new(SAMPLED),
            is_lost_forever,
            fences: EvenSample::new(SAMPLED),
            seen: false,
        }
    }

    /// Follows a store; returns the one that is not followed any more because of it.
    pub(super) fn add(&mut self, live: LiveStore, is_own: bool) -> Option<LiveStore> {
        self.seen = true;
        if is_own {
            self.own.push(live);
            return None;
        }
        if self.first.len() < FIRST {
            self.first.push(live);
            return None;
        }
        let is_full = self.newest.len() == NEWEST;
        let dropped = is_full.then(|| self.newest.pop_front()).flatten();
        self.newest.push_back(live);
        dropped
    }

    /// Stores that are guaranteed are over. Returns their events. `last` is the last failure point.
    pub(super) fn settle(&mut self, last: Option<FailurePoint>) -> Vec<EventIndex> {
        let Self {
            own,
            first,
            newest,
            over,
            ..
        } = self;
        let mut settled = Vec::new();
        let last_after =
            |live: &LiveStore| last.filter(|point| point.occurrence.event > live.store);
        for live in own
            .iter_mut()
            .filter(|live| !live.is_over && live.lines == 0)
        {
            live.last = last_after(live);
            live.is_over = true;
            settled.push(live.store);
        }
        let mut end = |live: &mut LiveStore| {
            let ended = live.lines == 0;
            if ended {
                live.last = last_after(live);
                over.offer(*live);
                settled.push(live.store);
            }
            !ended
        };
        first.retain_mut(&mut end);
        newest.retain_mut(&mut end);
        settled
    }

    pub(super) fn live_mut(&mut self) -> impl Iterator<Item = &mut LiveStore> {
        let own = self.own.iter_mut().filter(|live| !live.is_over);
        own.chain(&mut self.first).chain(&mut self.newest)
    }

    /// Losses of the occurrences that lint has seen, then one of each occurrence in turn.
    pub(super) fn losses(&self, unit: u64) -> Vec<Loss> {
        let own = self.own.iter().enumerate();
        let own = own.flat_map(|(turn, live)| live.losses(unit, turn));
        let mut first: Vec<Loss> = own.collect();
        let mut occurrences = vec![first.split_off(first.len().min(OWN))];
        let live = self.first.iter().chain(self.newest.iter().rev()).copied();
        let over = (!self.is_lost_forever).then(|| self.over.chosen());
        let stores = live.chain(over.into_iter().flatten());
        let stores = stores.enumerate();
        occurrences.extend(stores.map(|(turn, live)| live.losses(unit, turn)));
        for fence in self.fences.chosen() {
            let victims = fence.victims.into_iter().flatten();
            let losses = victims.map(|((file, start), store)| Loss {
                point: fence.point,
                store: Some(store),
                present_words: 0,
                units: (file, start..start + unit),
                stack: None,
            });
            occurrences.push(losses.collect());
        }
        let queues = occurrences.into_iter().map(VecDeque::from).collect();
        let mut losses: Vec<Loss> = Vec::new();
        for loss in first.into_iter().chain(in_turns(queues)) {
            if !losses.contains(&loss) {
                losses.push(loss);
            }
        }
        losses
    }
}
