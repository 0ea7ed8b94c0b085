//! What the strategy learns from runs of recovery.

use brownout_recovery::{Observation, Verdict};

use super::behaviours::{Next, NodeId};
use super::crash_times::Start;
use super::explorer::Explorer;
use super::failures::{FailureSite, site_inside};
use super::known_runs::KnownRun;
use super::schedule::Schedule;
use super::{Exhaustive, UNREADABLE};
use crate::crash_point::CrashPoint;
use crate::trial::Trial;

/// How a run ended.
#[derive(Clone, Copy)]
pub struct EndedRun {
    pub passes: bool,
    /// What it read is not known: the observation says why.
    pub is_unobserved: bool,
}

impl EndedRun {
    pub fn of(passes: bool, observation: &Observation) -> Self {
        Self {
            passes,
            is_unobserved: observation.reads.is_none(),
        }
    }
}

impl Exhaustive {
    /// Takes the run on a crash that leads to a node for all that is known about the node.
    pub fn settle(&mut self, explorer: &mut Explorer, node: NodeId, run: EndedRun) {
        if explorer.behaviours.next(node).is_known() {
            return;
        }
        if !run.is_unobserved {
            // It would have got there if it did the same as the earlier ones.
            self.is_contradicted = true;
        }
        let passes = run.passes;
        explorer.behaviours.learn(node, Next::End { passes });
    }

    /// Learns from a run that was observed.
    pub fn take(&mut self, explorer: &mut Explorer, trial: &Trial) {
        let Some(observation) = &trial.observation else {
            return;
        };
        let Some(start) = self.start_of(trial) else {
            return;
        };
        if trial.same_as.is_none() {
            self.executions += 1;
            let point = self.stores.times[self.times[&trial.point.event] as usize].context();
            *self.executions_at.entry(point).or_default() += 1;
            self.copies += u64::from(observation.is_copy);
            if let Some(reason) = &observation.run_anew {
                *self.run_anew.entry(reason.clone()).or_default() += 1;
            }
        }
        self.gaps.extend(observation.gaps.iter().cloned());
        self.is_contradicted |= observation.is_contradicted;
        let inputs = observation.other_inputs.iter();
        self.other_inputs.extend(inputs.cloned());
        if observation.reads.is_none() {
            return;
        }
        let run = KnownRun {
            point: trial.point.clone(),
            start,
            observation: observation.clone(),
            passes: trial.verdict.passed(),
            hangs: trial.verdict == Verdict::Hung,
            fails_anyway: trial.fails_anyway,
        };
        if self.depth > 1 {
            self.known_runs.add(run.clone());
        }
        self.take_run(explorer, &run);
    }

    /// How the recovery of a trial has started.
    pub fn start_of(&self, trial: &Trial) -> Option<Start> {
        let &time = self.times.get(&trial.point.event)?;
        let start = self.stores.times[time as usize].start.clone();
        if trial.point.interruptions.is_empty() {
            return Some(start);
        }
        let actions = trial.observation.as_ref()?.actions.as_ref()?;
        Some(Start {
            sizes: actions.sizes.clone(),
            ..start
        })
    }

    /// The situation in which a recovery has started; `None` if that is not known yet.
    pub fn situation_of(&self, point: &CrashPoint) -> Option<u32> {
        match point.interruptions.is_empty() {
            true => self.times.get(&point.event).copied(),
            false => self.inside.get(point).copied(),
        }
    }

    fn take_run(&mut self, explorer: &mut Explorer, run: &KnownRun) {
        let Some(reads) = &run.observation.reads else {
            return;
        };
        if !explorer.is_explained(reads) {
            // It is of a test that is resumed, and shows bytes that are not observed yet.
            return;
        }
        self.ended.insert(
            run.point.clone(),
            EndedRun::of(run.passes, &run.observation),
        );
        let acted = match run.observation.actions.as_ref().filter(|_| self.depth > 1) {
            None => None,
            Some(actions) => {
                let observed = &explorer.situations().differing;
                match self
                    .known_runs
                    .acted(actions, &self.stores.history, observed)
                {
                    Ok(acted) => acted,
                    Err(_) => {
                        self.gaps.insert(UNREADABLE.to_owned());
                        None
                    }
                }
            }
        };
        let learned = explorer.learn(&run.start, reads, run.passes, acted.as_ref());
        if let Some(situation) = self.situation_of(&run.point) {
            if !run.passes && !run.fails_anyway {
                let site = match explorer.situations().depth(situation) {
                    1 => FailureSite::Target(explorer.situations().context(situation)),
                    _ => site_inside(explorer, situation),
                };
                self.failures.insert((learned.end, site));
            }
            if explorer.sampled.contains(situation) {
                self.sampled_states.insert(run.point.clone());
            }
        }
        if run.hangs {
            self.hanging.insert(learned.end);
        }
        if !run.passes && learned.is_new {
            self.confirm(explorer, learned.end);
        }
        for time in learned.too_open {
            self.sampled_times.add(learned.end, time);
        }
        for end in explorer.take_failing_ends() {
            self.confirm(explorer, end);
        }
    }

    /// Observes what recovery has written, too, and builds the tree anew from what is known.
    pub fn observe_more(&mut self, explorer: &mut Explorer) {
        let situations = &mut explorer.versions.situations;
        let (differing, runs) = self.known_runs.observe_more(&situations.differing);
        situations.differing = differing;
        explorer.restart();
        self.schedule = Schedule::new(explorer);
        self.sampled_times.clear();
        self.ended.retain(|_, run| run.is_unobserved);
        self.inside.clear();
        self.failures.clear();
        self.hanging.clear();
        for run in &runs {
            self.take_run(explorer, run);
        }
    }
}
