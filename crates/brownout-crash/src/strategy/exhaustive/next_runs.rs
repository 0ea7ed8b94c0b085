//! Which runs are wanted next, and on which states.

use brownout_model::PossibleMemory;

use super::behaviours::{Next, NodeId};
use super::explorer::Explorer;
use super::{Exhaustive, WantedCrash};
use crate::crash_point::CrashPoint;

/// Runs that are wanted at once. A wave costs a pass over the trace, so it is put off until so many are wanted or none is under way.
const WAVE: usize = 64;

impl Exhaustive {
    /// Wants the runs that come next, unless it is too early. What can be reached without a crash inside recovery comes first.
    pub fn want_next(&mut self, explorer: &mut Explorer) -> bool {
        let is_idle = self.running.is_empty();
        let boundaries = self
            .schedule
            .boundaries_left(explorer, &self.budget, is_idle);
        let ready =
            boundaries.unwrap_or_else(|| explorer.frontier.len() + self.sampled_times.count());
        if !is_idle && self.wanted.len() + ready < WAVE {
            return false;
        }
        let nodes = explorer.take_frontier();
        let of_target = explorer.situations().of_target();
        let is_first = |node: &NodeId| {
            let first = explorer.behaviours.times(*node).first();
            first.is_some_and(|first| first < of_target)
        };
        let (mut first, later): (Vec<NodeId>, Vec<NodeId>) = nodes.into_iter().partition(is_first);
        let samples = match boundaries {
            Some(_) => 0,
            None => self.sampled_times.count().min(WAVE / 2),
        };
        let runs = self
            .schedule
            .take(explorer, &mut first, &mut self.budget, WAVE - samples);
        explorer.put_back(first);
        let taken = runs.len();
        for run in runs {
            let memory = match run.boundary {
                Some(boundary) => explorer.boundary_memory(boundary, run.time),
                None => explorer.memory_at(run.node, run.time),
            };
            self.want_run(explorer, run.node, run.time, &memory);
        }
        if boundaries.is_none() {
            self.want_samples(explorer, WAVE - taken);
        }
        let is_of_target = |point: &CrashPoint| point.interruptions.is_empty();
        match self.running.keys().any(is_of_target) {
            true => explorer.put_back(later),
            false => self.want_nodes(explorer, later),
        }
        true
    }

    /// Wants runs that are possible only after a crash inside recovery.
    fn want_nodes(&mut self, explorer: &mut Explorer, nodes: Vec<NodeId>) {
        for node in nodes {
            let time = self.time_to_run(explorer, node);
            // It can be among them several times.
            let is_unknown = explorer.behaviours.next(node) == Next::Unknown;
            let Some(time) = time.filter(|_| is_unknown) else {
                continue;
            };
            self.budget.take(explorer.situations().context(time));
            let memory = explorer.memory_at(node, time);
            self.want_run(explorer, node, time, &memory);
        }
    }

    /// Wants the run that shows what recovery does after a node.
    fn want_run(
        &mut self,
        explorer: &mut Explorer,
        node: NodeId,
        time: u32,
        memory: &PossibleMemory,
    ) {
        explorer.behaviours.await_run(node);
        let point = self.crash_point(explorer, time, memory);
        if let Some(&ended) = self.ended.get(&point) {
            self.settle(explorer, node, ended);
            return;
        }
        let nodes = self.running.entry(point.clone()).or_default();
        nodes.push(node);
        if nodes.len() == 1 {
            self.want(explorer, (point, time), memory);
        }
    }

    pub fn want(
        &mut self,
        explorer: &mut Explorer,
        (point, situation): (CrashPoint, u32),
        memory: &PossibleMemory,
    ) {
        if !point.interruptions.is_empty() {
            self.inside.insert(point.clone(), situation);
        }
        let fails_anyway = explorer.fails_anyway(situation, memory);
        self.wanted.push(WantedCrash {
            point,
            situation,
            fails_anyway,
        });
    }

    /// Wants the runs that have to be repeated.
    pub fn want_repeats(&mut self) {
        for point in self.repeats.take() {
            if let Some(situation) = self.situation_of(&point) {
                self.wanted.push(WantedCrash {
                    point,
                    situation,
                    // It has passed.
                    fails_anyway: false,
                });
            }
        }
    }

    /// The time of a crash that shows what recovery does after a node; `None` if all its times are sampled or have enough states.
    pub fn time_to_run(&self, explorer: &Explorer, node: NodeId) -> Option<u32> {
        let mut times = explorer.behaviours.times(node).iter();
        times.find(|&time| {
            let point = explorer.situations().context(time);
            !explorer.sampled.contains(time) && self.budget.is_left(point)
        })
    }

    /// Wants runs on some of the states of crash times that have too many, one of each time in turn.
    fn want_samples(&mut self, explorer: &mut Explorer, most: usize) {
        let mut wanted = 0;
        while wanted < most {
            let Some(mut sampled) = self.sampled_times.next_turn() else {
                return;
            };
            let time = sampled.time;
            let point = explorer.situations().context(time);
            if !self.budget.is_left(point) || !self.budget.is_sample_left(point) {
                continue;
            }
            let Some(memory) = sampled.next_sample(explorer) else {
                continue;
            };
            self.sampled_times.put_back(sampled);
            let sample = self.crash_point(explorer, time, &memory);
            if !self.proposed.contains(&sample) && !self.running.contains_key(&sample) {
                self.budget.take(point);
                self.budget.take_sample(point);
                self.running.insert(sample.clone(), Vec::new());
                self.want(explorer, (sample, time), &memory);
                wanted += 1;
            }
        }
    }
}
