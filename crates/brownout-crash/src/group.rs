//! Groups failures that one mistake causes.
//!
//! Failures with the same line of the failure point and the same way in which recovery fails are one group; if they try an open
//! order, with the same line of the store that is lost, and if recovery was interrupted, with the same line of recovery, wherever the
//! crash is. Groups are one if
//! they have neighbouring failure points, with none between them at which recovery passes: what one store breaks stays broken until
//! another one repairs it.
//!
//! Can join too much: a second mistake that breaks the same thing before the first is repaired.

use std::collections::HashMap;

use crate::coverage::TrialPurpose;
use crate::crash_point::CrashPoint;
use crate::trial::Trial;

/// Similar failures, the one that represents them first.
#[derive(Debug)]
pub struct Group {
    pub(crate) failures: Vec<Trial>,
}

impl Group {
    /// The one that represents all: the earliest failure point, or the earliest state between stores.
    pub fn first(&self) -> &Trial {
        &self.failures[0]
    }

    /// How recovery fails.
    pub(crate) fn signature(&self) -> Option<String> {
        let first = self.first();
        let failure = first.failure.as_ref()?;
        Some(failure.signature(&first.verdict))
    }

    /// Lets the first failure represent all that is `preferred`, if there is one and what represents them now is not. One that does
    /// not happen each time never represents others that do.
    pub(crate) fn put_first(&mut self, preferred: impl Fn(&Trial) -> bool) {
        let is_flaky = self.first().is_flaky();
        let mut failures = self.failures.iter();
        let better = failures.position(|trial| trial.is_flaky() == is_flaky && preferred(trial));
        if let Some(better) = better {
            self.failures[..=better].rotate_right(1);
        }
    }

    /// How many failure points fail; if none does, how many states between stores and open orders.
    pub(crate) fn count(&self) -> u64 {
        let is_point = |trial: &&Trial| !is_state(trial) && trial.point.is_in_program_order();
        match self.failures.iter().filter(is_point).count() {
            0 => self.failures.len() as u64,
            points => points as u64,
        }
    }
}

/// Groups failures by how recovery failed and by the line of the failure point; neighbours are one group.
///
/// Failure points are grouped as if no state between stores had been tried. A state then belongs to a neighbouring
/// failure point that fails alike, or to the failure between whose failure points it lies; only other states are groups of their own.
pub fn group(trials: &[Trial]) -> Vec<Group> {
    let own = trials.iter().filter(|trial| !trial.fails_anyway);
    let mut trials: Vec<&Trial> = own.collect();
    trials.sort_by(|a, b| a.point.cmp(&b.point));
    let points = trials.iter().copied().filter(|trial| !is_state(trial));
    let mut groups = group_in_order(points);
    let mut by_point: HashMap<CrashPoint, usize> = HashMap::new();
    for (number, group) in groups.iter().enumerate() {
        let points = group.failures.iter().map(|trial| trial.point.clone());
        by_point.extend(points.map(|point| (point, number)));
    }
    let in_order: Vec<&Trial> = trials
        .iter()
        .copied()
        .filter(|trial| trial.point.is_in_program_order())
        .collect();
    let owners = owners(&in_order, &by_point);
    let mut own = Vec::new();
    for (trial, owner) in in_order.into_iter().zip(owners) {
        match owner {
            Some(owner) if is_state(trial) => groups[owner].failures.push(trial.clone()),
            Some(_) => {}
            // Those that pass separate others.
            None => own.push(trial),
        }
    }
    groups.extend(group_in_order(own.into_iter()));
    for group in &mut groups {
        // What happens each time represents the group, and of that a failure point, if there is one.
        group.failures.sort_by(|a, b| {
            let order = |trial: &Trial| (trial.is_flaky(), is_state(trial));
            order(a).cmp(&order(b)).then_with(|| a.point.cmp(&b.point))
        });
    }
    groups
}

/// Whether a trial is of a state between stores.
fn is_state(trial: &Trial) -> bool {
    trial.purpose == TrialPurpose::Store
}

/// For each trial in program order the group of failure points that it belongs to, if it fails.
fn owners(in_order: &[&Trial], by_point: &HashMap<CrashPoint, usize>) -> Vec<Option<usize>> {
    let signature = |trial: &Trial| {
        let failure = trial.failure.as_ref()?;
        Some((failure.signature(&trial.verdict), trial.operation))
    };
    let signatures: Vec<_> = in_order.iter().map(|trial| signature(trial)).collect();
    // What each trial knows from its neighbours on one side: the group that fails alike, and the one that fails at all.
    let pass = |numbers: &mut dyn Iterator<Item = usize>| {
        let mut known = vec![(None, None); in_order.len()];
        let mut last: Option<usize> = None;
        for number in numbers {
            let (mut alike, mut any) = (None, None);
            if signatures[number].is_some() {
                let group = by_point.get(&in_order[number].point).copied();
                let (last_alike, last_any) = last.map_or((None, None), |last| known[last]);
                let is_alike = last.is_some_and(|last| signatures[last] == signatures[number]);
                alike = group.or(last_alike.filter(|_| is_alike));
                any = group.or(last_any);
            }
            known[number] = (alike, any);
            last = Some(number);
        }
        known
    };
    let before = pass(&mut (0..in_order.len()));
    let after = pass(&mut (0..in_order.len()).rev());
    let owners = before.into_iter().zip(after);
    owners
        .map(|((alike_before, any_before), (alike_after, any_after))| {
            let between = any_before.filter(|_| any_after.is_some());
            alike_before.or(alike_after).or(between)
        })
        .collect()
}

/// Whether recovery was interrupted, and the lines of the failure point or of recovery.
type PlaceKey<'t> = (bool, Vec<&'t str>);

/// Groups trials that are given in the order of the trace.
fn group_in_order<'t>(trials: impl Iterator<Item = &'t Trial>) -> Vec<Group> {
    let mut numbers: HashMap<(PlaceKey<'_>, Option<&str>, String), usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    // The group that each one was united with, itself if none.
    let mut united: Vec<usize> = Vec::new();
    let mut neighbour: Option<(&Trial, String, usize)> = None;
    for trial in trials {
        let in_order = trial.point.is_in_program_order();
        let Some(failure) = &trial.failure else {
            if in_order {
                neighbour = None;
            }
            continue;
        };
        let signature = failure.signature(&trial.verdict);
        let lost = failure.lost.as_deref();
        let is_interrupted = !failure.interrupted.is_empty();
        let inside = failure.interrupted.iter();
        let lines: Vec<&str> = match lost {
            Some(_) => Vec::new(),
            None if is_interrupted => inside.map(|recovery| recovery.line.as_str()).collect(),
            None => vec![&failure.line],
        };
        let key = ((is_interrupted, lines), lost, signature.clone());
        let number = *numbers.entry(key).or_insert_with(|| {
            groups.push(Group {
                failures: Vec::new(),
            });
            united.push(groups.len() - 1);
            groups.len() - 1
        });
        groups[number].failures.push(trial.clone());
        if in_order {
            if let Some((previous, alike, other)) = &neighbour
                && *alike == signature
                && previous.operation == trial.operation
            {
                let (a, b) = (root(&united, *other), root(&united, number));
                united[a.max(b)] = a.min(b);
            }
            neighbour = Some((trial, signature, number));
        }
    }
    for number in (0..groups.len()).rev() {
        let into = root(&united, number);
        if into != number {
            let failures = std::mem::take(&mut groups[number].failures);
            groups[into].failures.extend(failures);
        }
    }
    groups.retain(|group| !group.failures.is_empty());
    for group in &mut groups {
        group.failures.sort_by(|a, b| a.point.cmp(&b.point));
    }
    groups
}

/// The group that a group was united with in the end.
fn root(united: &[usize], mut number: usize) -> usize {
    while united[number] != number {
        number = united[number];
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash_point::{Choice, Interruption, OtherLines};
    use crate::failure_point::PointKind;
    use crate::operation::Operation;
    use crate::trial::{Failure, InterruptedRecovery};
    use brownout_model::Tearing;
    use brownout_recovery::Verdict;

    fn passed(event: u64) -> Trial {
        Trial {
            point: CrashPoint::program_order(event),
            kind: PointKind::Flush,
            purpose: TrialPurpose::default(),
            operation: None,
            image: event.to_string(),
            same_as: None,
            reached_from: None,
            verdict: Verdict::Passed,
            fails_anyway: false,
            seconds: 0.0,
            failure: None,
            observation: None,
            behaviour: None,
            indirect: None,
        }
    }

    fn failed(event: u64, line: &str, said: &str) -> Trial {
        Trial {
            verdict: Verdict::Failed(1),
            failure: Some(Failure {
                line: line.into(),
                output: vec![said.into()],
                ..Failure::default()
            }),
            ..passed(event)
        }
    }

    /// The events of each group.
    fn groups(trials: &[Trial]) -> Vec<Vec<u64>> {
        let events = |group: Group| {
            group
                .failures
                .iter()
                .map(|trial| trial.point.event)
                .collect()
        };
        group(trials).into_iter().map(events).collect()
    }

    #[test]
    fn neighbours_that_fail_alike_are_one_group() {
        let trials = [
            passed(1),
            failed(2, "a.c:2", "broken"),
            failed(3, "a.c:3", "broken"),
            passed(4),
            failed(5, "a.c:2", "broken"),
        ];
        assert_eq!(groups(&trials), [vec![2, 3, 5]]);
    }

    #[test]
    fn a_failure_that_is_preferred_represents_its_group() {
        let trials = [1, 2, 3].map(|event| failed(event, "a.c:2", "broken"));
        let mut group = group(&trials).remove(0);
        let events = |group: &Group| -> Vec<u64> {
            let failures = group.failures.iter();
            failures.map(|trial| trial.point.event).collect()
        };
        group.put_first(|trial| trial.point.event == 9);
        assert_eq!(events(&group), [1, 2, 3]);
        group.put_first(|trial| trial.point.event > 1);
        assert_eq!(events(&group), [2, 1, 3]);
    }

    #[test]
    fn a_recovery_that_passes_in_between_separates() {
        let trials = [
            failed(2, "a.c:2", "broken"),
            passed(3),
            failed(4, "a.c:4", "broken"),
        ];
        assert_eq!(groups(&trials), [[2], [4]]);
    }

    #[test]
    fn neighbours_that_fail_in_different_ways_are_separate() {
        let trials = [
            failed(2, "a.c:2", "the count is wrong"),
            failed(3, "a.c:3", "the key is lost"),
        ];
        assert_eq!(groups(&trials), [[2], [3]]);
    }

    #[test]
    fn operations_are_separate() {
        let in_operation = |completed, trial| Trial {
            operation: Some(Operation {
                completed,
                active: true,
            }),
            ..trial
        };
        let trials = [
            in_operation(0, failed(2, "a.c:2", "broken")),
            in_operation(1, failed(3, "a.c:3", "broken")),
        ];
        assert_eq!(groups(&trials), [[2], [3]]);
    }

    #[test]
    fn interrupted_recoveries_are_one_group_for_each_line_of_recovery() {
        let inside = |line: &str, mut trial: Trial| {
            trial.point.interruptions = vec![Interruption {
                actions: 1,
                digest: 0,
                choice: None,
            }];
            let interrupted = InterruptedRecovery {
                line: line.into(),
                ..InterruptedRecovery::default()
            };
            trial.failure.as_mut().unwrap().interrupted = vec![interrupted];
            trial
        };
        let anyway = Trial {
            fails_anyway: true,
            ..inside("a.c:9", failed(9, "a.c:2", "broken"))
        };
        let trials = [
            failed(1, "a.c:2", "broken"),
            inside("a.c:7", failed(3, "a.c:2", "broken")),
            inside("a.c:7", failed(5, "a.c:4", "broken")),
            inside("a.c:8", failed(6, "a.c:4", "broken")),
            anyway,
        ];
        assert_eq!(groups(&trials), [vec![1], vec![3, 5], vec![6]]);
    }

    #[test]
    fn open_orders_are_one_group_for_each_store_that_is_lost() {
        let losing = |lost: &str, mut trial: Trial| {
            trial.purpose = TrialPurpose::OpenOrder;
            trial.point.choice = Some(Choice {
                profile: "adr".into(),
                tearing: Tearing::Whole,
                others: OtherLines::Newest,
                lines: Vec::new(),
            });
            let failure = trial.failure.as_mut();
            failure.unwrap().lost = Some(lost.into());
            trial
        };
        let trials = [
            failed(1, "a.c:2", "broken"),
            passed(2),
            losing("a.c:7", failed(3, "a.c:2", "broken")),
            losing("a.c:7", failed(5, "a.c:4", "broken")),
            losing("a.c:9", failed(6, "a.c:4", "broken")),
        ];
        assert_eq!(groups(&trials), [vec![1], vec![3, 5], vec![6]]);
    }

    fn state(trial: Trial) -> Trial {
        Trial {
            purpose: TrialPurpose::Store,
            ..trial
        }
    }

    #[test]
    fn states_between_stores_belong_to_failure_points_that_fail_alike() {
        let trials = [
            passed(1),
            state(failed(2, "a.c:2", "broken")),
            state(failed(3, "a.c:3", "broken")),
            failed(4, "a.c:4", "broken"),
            passed(5),
        ];
        assert_eq!(groups(&trials), [[4, 2, 3]]);
        let between = [
            failed(2, "a.c:2", "broken"),
            state(failed(3, "a.c:3", "the key is lost")),
            failed(4, "a.c:4", "broken"),
        ];
        assert_eq!(groups(&between), [[2, 4, 3]]);
    }

    #[test]
    fn an_update_that_is_torn_between_failure_points_that_pass_is_a_failure_of_its_own() {
        let trials = [
            failed(1, "a.c:9", "broken"),
            passed(2),
            state(failed(3, "a.c:3", "broken")),
            passed(4),
            state(failed(13, "a.c:3", "broken")),
            passed(14),
        ];
        assert_eq!(groups(&trials), [vec![1], vec![3, 13]]);
    }

    #[test]
    fn a_state_that_passes_does_not_separate_failure_points() {
        let trials = [
            failed(2, "a.c:2", "broken"),
            state(passed(3)),
            failed(4, "a.c:4", "broken"),
        ];
        assert_eq!(groups(&trials), [[2, 4]]);
    }
}
