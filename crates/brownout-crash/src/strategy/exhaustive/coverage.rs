//! What was explored of what there is, and why something may be missing.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use brownout_model::Tearing;
use brownout_report::{Covered, ExplorationCoverage, ExploredPoint};

use super::behaviours::{Next, NodeId};
use super::crash_times::Context;
use super::explorer::{Explorer, MOST_CHOICES};
use super::situations::sum_log10;
use super::time_set::TimeSet;
use super::{Exhaustive, IMPOSSIBLE};

impl Exhaustive {
    /// How far all behaviours of recovery were explored.
    pub fn coverage(&self, explorer: &Explorer) -> ExplorationCoverage {
        let situations = explorer.situations();
        let times = situations.of_target();
        let unfinished = explorer.unfinished();
        let points = self.points(&unfinished, &explorer.sampled);
        let [all_present, all_lost] = self.schedule.unknown_boundaries();
        let open_points = points.iter().filter(|point| !point.is_finished());
        let finished = |all: u64, open: u64| Covered::new(all - open, all);
        let open_in = |numbers: Range<u32>| -> u64 {
            let parts = unfinished.parts(numbers);
            parts.map(|part| u64::from(part.end - part.start)).sum()
        };
        let is_waiting = |&node: &NodeId| {
            explorer.behaviours.next(node) == Next::Awaited
                || self.time_to_run(explorer, node).is_some()
        };
        let behaviours = &explorer.behaviours;
        let ends = behaviours
            .nodes()
            .filter(|&node| matches!(behaviours.next(node), Next::End { .. }));
        let paths: u64 = ends.map(|node| behaviours.times(node).count()).sum();
        let mut inside = vec![Covered::default(); self.depth - 1];
        for known in situations.interrupted() {
            let covered = &mut inside[known.depth - 2];
            let all = u64::from(known.numbers.end - known.numbers.start);
            covered.of += all;
            covered.tried += all - open_in(known.numbers.clone());
        }
        let unobserved = self.known_runs.waiting();
        if let Some(first) = inside.first_mut() {
            first.of += unobserved;
        }
        let waiting = explorer.waiting().filter(is_waiting).count() as u64;
        ExplorationCoverage {
            failure_points: finished(points.len() as u64, open_points.count() as u64),
            crash_times: finished(u64::from(times), open_in(0..times)),
            every_store: finished(u64::from(times), all_present),
            fewest_stores: finished(u64::from(times), all_lost),
            inside_recovery: inside,
            executions: self.executions,
            copies: self.copies,
            run_anew: self.run_anew.clone(),
            waiting: waiting + unobserved,
            remembered: self.remembered,
            known_paths: paths.saturating_sub(self.executions + self.remembered),
            equal_bytes: explorer.saved.equal_bytes,
            refinement: explorer.saved.refinement,
            states_log10: situations.eager_states_log10(),
            torn_stores: self.stores.history.tearing() == Tearing::Words,
            gaps: self.gaps(explorer),
            points,
        }
    }

    /// Why behaviours may be missing, in sentences.
    fn gaps(&self, explorer: &Explorer) -> Vec<String> {
        let contradictions = explorer.behaviours.contradictions() + explorer.other_actions();
        // Until everything is explored, not every crash inside recovery is known that can leave what was read.
        let are_crashes_known = self.depth == 1 || explorer.unfinished().is_empty();
        let is_impossible = are_crashes_known && explorer.has_impossible_reads();
        let is_contradicted = contradictions > 0 || self.is_contradicted;
        let own = [
            is_contradicted.then(|| not_a_function(&self.other_inputs)),
            is_impossible.then(|| IMPOSSIBLE.to_owned()),
        ];
        let own = own.into_iter().flatten();
        let all: BTreeSet<String> = self.gaps.iter().cloned().chain(own).collect();
        let counted = self.without_point().into_iter();
        let counted = counted.chain(self.sampling(explorer));
        let counted = counted.chain(self.exceeded_budget(explorer));
        all.into_iter().chain(counted).collect()
    }

    fn without_point(&self) -> Option<String> {
        let left_out = self.stores.left_out;
        let times = match left_out {
            1 => "1 crash time is",
            _ => &format!("{left_out} crash times are"),
        };
        (left_out > 0).then(|| {
            format!(
                "{times} at no failure point and not explored: the content of a mapped file was replaced there, or the run is cut off"
            )
        })
    }

    fn sampling(&self, explorer: &Explorer) -> Option<String> {
        let sampled = &explorer.sampled;
        let situations = explorer.situations();
        let states = sampled.iter().map(|time| situations.states_log10(time));
        (!sampled.is_empty()).then(|| {
            format!(
                "at {} of {} crash times, the bytes that recovery reads can differ in more than {MOST_CHOICES} places, so states were \
                 sampled, not exhaustively: {} of about 10^{:.1}",
                sampled.count(),
                situations.end(),
                self.sampled_states.len(),
                sum_log10(states.collect())
            )
        })
    }

    fn exceeded_budget(&self, explorer: &Explorer) -> Option<String> {
        let most = self.budget.most?;
        let full = self
            .budget
            .states
            .values()
            .filter(|&&states| states >= most);
        let full = full.count();
        let is_exceeded = explorer
            .waiting()
            .any(|node| self.time_to_run(explorer, node).is_none());
        (is_exceeded && full > 0).then(|| {
            format!(
                "--max-states {most} was reached at {full} of {} failure points",
                self.stores.names.len()
            )
        })
    }

    /// For each failure point, at how many of its times every behaviour is known.
    fn points(&self, unfinished: &TimeSet, sampled: &TimeSet) -> Vec<ExploredPoint> {
        let mut points: BTreeMap<&str, ExploredPoint> = BTreeMap::new();
        let mut contexts: BTreeMap<&str, HashSet<Context>> = BTreeMap::new();
        for (time, explored) in (0..).zip(&self.stores.times) {
            let name = &self.stores.names[&explored.context()];
            let point = points.entry(name).or_default();
            point.crash_times.of += 1;
            point.crash_times.tried += u64::from(!unfinished.contains(time));
            point.sampled += u64::from(sampled.contains(time));
            contexts.entry(name).or_default().insert(explored.context());
        }
        let states = |name: &str| {
            let contexts = contexts[name].iter();
            contexts
                .filter_map(|context| self.executions_at.get(context))
                .sum()
        };
        let points = points.into_iter();
        points
            .map(|(name, point)| ExploredPoint {
                failure_point: name.to_owned(),
                states: states(name),
                ..point
            })
            .collect()
    }
}

/// An input that is named anyway.
pub const OTHER_FILES: &str = "other files";

/// That recovery depends on more than what it reads, and on what that may be.
fn not_a_function(other_inputs: &BTreeSet<String>) -> String {
    let inputs = other_inputs.iter().map(String::as_str);
    let inputs: Vec<&str> = inputs.filter(|&input| input != OTHER_FILES).collect();
    let cause = match inputs.split_last() {
        None => "it may depend on its threads, on other processes or on other files".to_owned(),
        Some((last, [])) => format!("it may depend on {last}, its threads or other files"),
        Some((last, others)) => format!(
            "it may depend on {}, {last}, its threads or other files",
            others.join(", ")
        ),
    };
    format!("recovery behaves differently after reading the same bytes: {cause}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_recovery_may_depend_on_is_named() {
        let named = |inputs: &[&str]| {
            let inputs = inputs.iter().map(|&input| input.to_owned());
            not_a_function(&inputs.collect())
        };
        assert!(named(&[]).ends_with("its threads, on other processes or on other files"));
        let one = named(&["the time"]);
        assert!(one.ends_with("it may depend on the time, its threads or other files"));
        let two = named(&["the time", "random numbers"]);
        assert!(two.contains("random numbers, the time, its threads"));
        assert_eq!(named(&["the time", "other files"]), one);
    }
}
