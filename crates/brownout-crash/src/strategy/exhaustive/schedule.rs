//! In which order behaviours are explored. It decides what is known when the time is over, not what is known at the end.
//!
//! First recovery runs on the state with every store of each crash time, then on the state without any that can be lost
//! ([`boundary`](super::boundary)). Then failure points take turns: the one with the fewest runs comes first, with the crash time
//! that takes the fewest runs to finish, as far as can be seen. So a crash time with very many states holds up no other, and
//! as many as possible are finished.

use rustc_hash::{FxHashMap, FxHashSet};

use super::behaviours::{Next, NodeId};
use super::boundary::{BoundaryState, BoundaryWalk};
use super::budget::Budget;
use super::crash_times::Context;
use super::explorer::Explorer;
use super::time_set::TimeSet;

/// While boundary states are tried, so many runs are wanted at once, at least: each generation of them can be small.
const FEW: usize = 8;

/// A run that is wanted next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextRun {
    pub node: NodeId,
    pub time: u32,
    /// The state to run on; `None` if it is the newest one that leads to the node.
    pub boundary: Option<BoundaryState>,
}

/// Which behaviours are explored next. It knows only crashes of the target.
pub struct Schedule {
    /// With every store, and with as few as possible.
    walks: [BoundaryWalk; 2],
    /// The failure point of each crash time.
    contexts: Vec<Context>,
    /// How many runs were wanted for each crash time.
    runs: Vec<u64>,
}

impl Schedule {
    pub fn new(explorer: &Explorer) -> Self {
        let times = &explorer.situations().stores.times;
        let contexts: Vec<Context> = times.iter().map(|time| time.context()).collect();
        let boundaries = [BoundaryState::Newest, BoundaryState::Oldest];
        Self {
            walks: boundaries.map(|boundary| BoundaryWalk::new(boundary, explorer)),
            runs: vec![0; contexts.len()],
            contexts,
        }
    }

    /// Goes on along what runs have shown since.
    pub fn advance(&mut self, explorer: &mut Explorer) {
        for walk in &mut self.walks {
            walk.advance(explorer);
        }
    }

    /// How many boundary states can be wanted now; `None` if all have been tried. Those for which there can be no run are given up.
    pub fn boundaries_left(
        &mut self,
        explorer: &mut Explorer,
        budget: &Budget,
        is_idle: bool,
    ) -> Option<usize> {
        self.advance(explorer);
        let contexts = &self.contexts;
        for walk in &mut self.walks {
            walk.retain(|node, times| match explorer.behaviours.next(node) {
                Next::Awaited => !is_idle,
                _ => time_with_budget(times, contexts, budget).is_some(),
            });
            if !walk.heads().is_empty() {
                let heads = walk.heads().iter();
                let unknown =
                    heads.filter(|(node, _)| explorer.behaviours.next(*node) == Next::Unknown);
                return Some(unknown.count());
            }
        }
        None
    }

    /// At how many crash times it is not known how recovery ends with every store, and with as few as possible.
    pub fn unknown_boundaries(&self) -> [u64; 2] {
        [0, 1].map(|number: usize| self.walks[number].unknown())
    }

    /// Takes the runs that come next from the nodes that no run has reached, at most `most`, with their budget. Boundary states come
    /// first, if there are any left. Nodes for which there can be no run are taken out.
    pub fn take(
        &mut self,
        explorer: &Explorer,
        nodes: &mut Vec<NodeId>,
        budget: &mut Budget,
        most: usize,
    ) -> Vec<NextRun> {
        let mut next = Vec::new();
        let has_boundaries = self.take_boundaries(explorer, budget, most, &mut next);
        let most = match has_boundaries {
            true => FEW.min(most),
            false => most,
        };
        let taken: FxHashSet<NodeId> = next.iter().map(|run| run.node).collect();
        let is_left = |node: &NodeId| {
            !taken.contains(node) && explorer.behaviours.next(*node) == Next::Unknown
        };
        nodes.retain(is_left);
        nodes.sort_unstable();
        nodes.dedup();
        self.take_in_turns(explorer, nodes, budget, most, &mut next);
        next
    }

    /// Takes boundary states. Returns whether there are any left, those that are being tried included.
    fn take_boundaries(
        &mut self,
        explorer: &Explorer,
        budget: &mut Budget,
        most: usize,
        next: &mut Vec<NextRun>,
    ) -> bool {
        let walk = self.walks.iter().find(|walk| !walk.heads().is_empty());
        let Some(walk) = walk else { return false };
        let boundary = Some(walk.boundary());
        let heads = walk.heads().iter();
        let unknown = heads.filter(|(node, _)| explorer.behaviours.next(*node) == Next::Unknown);
        let mut waiting: Vec<&(NodeId, TimeSet)> = unknown.collect();
        // Failure points with few runs first, each once before any is taken twice.
        while next.len() < most && !waiting.is_empty() {
            waiting.sort_by_cached_key(|(_, times)| {
                let first = time_with_budget(times, &self.contexts, budget);
                first.map(|time| budget.used(self.contexts[time as usize]))
            });
            let mut points: FxHashSet<Context> = FxHashSet::default();
            waiting.retain(|(node, times)| {
                let Some(time) = time_with_budget(times, &self.contexts, budget) else {
                    return false;
                };
                let context = self.contexts[time as usize];
                if next.len() >= most || !points.insert(context) {
                    return true;
                }
                budget.take(context);
                self.runs[time as usize] += 1;
                next.push(NextRun {
                    node: *node,
                    time,
                    boundary,
                });
                false
            });
        }
        true
    }

    /// Lets failure points take turns.
    fn take_in_turns(
        &mut self,
        explorer: &Explorer,
        nodes: &mut Vec<NodeId>,
        budget: &mut Budget,
        most: usize,
        next: &mut Vec<NextRun>,
    ) {
        let of_target = 0..explorer.situations().of_target();
        let mut waiting = vec![0_u64; self.contexts.len()];
        for &node in nodes.iter() {
            let parts = explorer.behaviours.times(node).parts(of_target.clone());
            parts.flatten().for_each(|time| waiting[time as usize] += 1);
        }
        while next.len() < most {
            let mut turns = self.turns(explorer, &waiting, budget);
            let left = most - next.len();
            turns.truncate(left);
            if turns.is_empty() {
                break;
            }
            let share = left / turns.len();
            for time in turns {
                let context = self.contexts[time as usize];
                let mut taken = 0;
                nodes.retain(|&node| {
                    let times = explorer.behaviours.times(node);
                    if taken == share || !budget.is_left(context) || !times.contains(time) {
                        return true;
                    }
                    taken += 1;
                    budget.take(context);
                    self.runs[time as usize] += 1;
                    let parts = times.parts(of_target.clone());
                    parts.flatten().for_each(|time| waiting[time as usize] -= 1);
                    next.push(NextRun {
                        node,
                        time,
                        boundary: None,
                    });
                    false
                });
            }
        }
        // For the others there can be a run later.
        let can_run = |time: u32| {
            !explorer.sampled.contains(time) && budget.is_left(self.contexts[time as usize])
        };
        nodes.retain(|&node| {
            let times = explorer.behaviours.times(node);
            let mut of_target = times.parts(of_target.clone()).flatten();
            of_target.any(can_run)
        });
    }

    /// For each failure point at which something can be run, the crash time to run it at: the failure point with the fewest runs first.
    fn turns(&self, explorer: &Explorer, waiting: &[u64], budget: &Budget) -> Vec<u32> {
        let mut cheapest: FxHashMap<Context, (u64, u32)> = FxHashMap::default();
        for (time, (&waiting, &runs)) in (0..).zip(waiting.iter().zip(&self.runs)) {
            let context = self.contexts[time as usize];
            if waiting == 0 || explorer.sampled.contains(time) || !budget.is_left(context) {
                continue;
            }
            // A time that has had many runs is likely to need many more.
            let cost = (waiting + runs, time);
            let known = cheapest.entry(context).or_insert(cost);
            *known = cost.min(*known);
        }
        let mut turns: Vec<(u64, u64, u32)> = cheapest
            .into_iter()
            .map(|(context, (cost, time))| (budget.used(context), cost, time))
            .collect();
        turns.sort_unstable();
        turns.into_iter().map(|(.., time)| time).collect()
    }
}

/// One of some times at whose failure point a state can be tried: the failure point with the fewest runs. Of its times one in the
/// middle, because the others are then likely to differ from it in different reads: if data grows from crash time to crash time, all
/// others would differ from the first in the same read.
fn time_with_budget(times: &TimeSet, contexts: &[Context], budget: &Budget) -> Option<u32> {
    let context = |time: u32| contexts[time as usize];
    let possible = || times.iter().filter(|&time| budget.is_left(context(time)));
    let fewest = possible().map(|time| budget.used(context(time))).min()?;
    let chosen = || possible().filter(|&time| budget.used(context(time)) == fewest);
    chosen().nth(chosen().count() / 2)
}
