//! Groups failures that one mistake causes.
//!
//! Failures with the same line of the failure point and the same way in which recovery fails are one group. Groups are one if
//! they have neighbouring failure points, with none between them at which recovery passes: what one store breaks stays broken until
//! another one repairs it.
//!
//! Can join too much: a second mistake that breaks the same thing before the first is repaired.

use std::collections::HashMap;

use crate::trial::Trial;

/// Similar failures, in the order of the trace.
#[derive(Debug)]
pub struct Group {
    pub(crate) failures: Vec<Trial>,
}

impl Group {
    /// The earliest, which represents all.
    pub fn first(&self) -> &Trial {
        &self.failures[0]
    }
}

/// Groups failures by how recovery failed and by the line of the failure point; neighbours are one group.
pub fn group(trials: &[Trial]) -> Vec<Group> {
    let mut trials: Vec<&Trial> = trials.iter().collect();
    trials.sort_by(|a, b| a.point.cmp(&b.point));
    let mut numbers: HashMap<(&str, String), usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    // The group that each one was united with, itself if none.
    let mut united: Vec<usize> = Vec::new();
    let mut neighbour: Option<(&Trial, String, usize)> = None;
    for trial in trials {
        let in_order = trial.point.choice.is_none();
        let Some(failure) = &trial.failure else {
            if in_order {
                neighbour = None;
            }
            continue;
        };
        let signature = failure.signature(&trial.verdict);
        let key = (failure.line.as_str(), signature.clone());
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
    use crate::coverage::TrialPurpose;
    use crate::crash_point::CrashPoint;
    use crate::failure_point::PointKind;
    use crate::operation::Operation;
    use crate::trial::Failure;
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
            seconds: 0.0,
            failure: None,
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
}
