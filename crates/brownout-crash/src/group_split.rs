//! Separates failures of a group that the cause of the group does not explain.
//!
//! Failures at one line that look alike are one group, and the cause of one of them is searched. If that is a store that the crash has
//! lost, it explains only failures whose crash has lost that store, too. Others have another cause: a flush that is missing somewhere makes
//! recovery fail at every later failure point, whatever else is wrong there. They become groups of their own, for which the search begins
//! again.
//!
//! Can miss: failures that have lost another store of the same line, or of a line at the same offset of another file.

use std::collections::HashMap;

use crate::cause::Cause;
use crate::crash_point::{CrashPoint, OtherLines};
use crate::group::Group;
use crate::trial::Trial;

/// The groups, without failures that their causes do not explain, and these as groups of their own.
pub fn split_by_cause(groups: Vec<Group>, causes: &[Cause]) -> Vec<Group> {
    let causes = by_point(causes);
    let parts = groups.into_iter().flat_map(|group| parts(group, &causes));
    parts.collect()
}

/// As [`split_by_cause`] does, but failures whose own cause is not known stay where they are: they may have no other.
pub(crate) fn split_if_known(groups: Vec<Group>, causes: &[Cause]) -> Vec<Group> {
    let causes = by_point(causes);
    let mut split = Vec::new();
    for group in groups {
        let mut parts = parts(group, &causes);
        let rest = parts.split_off(1);
        let (known, unknown): (Vec<Group>, Vec<Group>) = rest
            .into_iter()
            .partition(|part| named_cause(part, &causes).is_some());
        let unknown = unknown.into_iter().flat_map(|part| part.failures);
        parts[0].failures.extend(unknown);
        split.extend(parts);
        split.extend(known);
    }
    split
}

fn by_point(causes: &[Cause]) -> HashMap<&CrashPoint, &Cause> {
    let causes = causes.iter();
    causes.map(|cause| (&cause.cause_of, cause)).collect()
}

/// The cause of the first failure of a group for which stores are known.
fn named_cause<'c>(group: &Group, causes: &HashMap<&CrashPoint, &'c Cause>) -> Option<&'c Cause> {
    let mut failures = group.failures.iter();
    failures.find_map(|trial| {
        let cause = *causes.get(&trial.point)?;
        cause.names_stores().then_some(cause)
    })
}

/// The failures that the cause of the group explains, and then the others in the same way.
fn parts(mut group: Group, causes: &HashMap<&CrashPoint, &Cause>) -> Vec<Group> {
    let mut parts = Vec::new();
    while let Some(cause) = named_cause(&group, causes).filter(|cause| cause.is_loss()) {
        let failures = std::mem::take(&mut group.failures);
        let (explained, others) = failures
            .into_iter()
            .partition(|trial| trial.point == cause.cause_of || may_have_lost(trial, cause));
        parts.push(Group {
            failures: explained,
        });
        group.failures = others;
    }
    if !group.failures.is_empty() {
        parts.push(group);
    }
    parts
}

/// Whether the crash may have lost stores of the cause.
fn may_have_lost(trial: &Trial, cause: &Cause) -> bool {
    let Some(choice) = &trial.point.choice else {
        // In program order nothing is lost.
        return false;
    };
    let Ok(profile) = choice.profile() else {
        return true;
    };
    if choice.others == OtherLines::Guaranteed {
        return true;
    }
    let mut lines = choice.lines.iter();
    lines.any(|line| cause.misses_stores_in(line.offset, profile.unit))
}

#[cfg(test)]
mod tests {
    use brownout_model::Tearing;
    use brownout_recovery::Verdict;
    use brownout_report::ByteRange;

    use super::*;
    use crate::cause::Culprit;
    use crate::coverage::TrialPurpose;
    use crate::crash_point::{Choice, LineChoice};
    use crate::failure_point::PointKind;
    use crate::group::group;
    use crate::trial::Failure;

    /// A failure whose crash has lost stores of these lines.
    fn losing(event: u64, lines: &[u64]) -> Trial {
        let line = |&offset: &u64| LineChoice {
            file: 0,
            offset,
            stores: 1,
            exceptions: Vec::new(),
            torn: Vec::new(),
        };
        let choice = Choice {
            profile: "adr".into(),
            tearing: Tearing::Whole,
            others: OtherLines::Newest,
            lines: lines.iter().map(line).collect(),
        };
        Trial {
            point: CrashPoint::chosen(event, Some(choice)),
            ..in_order(event)
        }
    }

    fn in_order(event: u64) -> Trial {
        Trial {
            point: CrashPoint::program_order(event),
            kind: PointKind::Flush,
            purpose: TrialPurpose::default(),
            operation: None,
            image: event.to_string(),
            same_as: None,
            reached_from: None,
            verdict: Verdict::Failed(1),
            fails_anyway: false,
            seconds: 0.0,
            failure: Some(Failure {
                line: "a.c:2".into(),
                output: vec!["broken".into()],
                ..Failure::default()
            }),
            observation: None,
            behaviour: None,
            indirect: None,
        }
    }

    /// This failure happens because a store to this offset is lost.
    fn loss(trial: &Trial, offset: u64) -> Cause {
        let culprit = Culprit {
            event: 1,
            stack: Vec::new(),
            ranges: vec![ByteRange {
                file: "pool".into(),
                offset,
                len: 8,
            }],
            persisted: Vec::new(),
        };
        Cause {
            cause_of: trial.point.clone(),
            present: Vec::new(),
            absent: vec![culprit],
            stores: None,
            lost_lines: Vec::new(),
            tests: 1,
        }
    }

    fn events(groups: &[Group]) -> Vec<Vec<u64>> {
        let events = |group: &Group| {
            let failures = group.failures.iter();
            failures.map(|trial| trial.point.event).collect()
        };
        groups.iter().map(events).collect()
    }

    #[test]
    fn a_lost_store_does_not_explain_failures_that_have_not_lost_it() {
        let trials = [
            losing(1, &[0]),
            losing(2, &[0, 128]),
            losing(3, &[128]),
            in_order(4),
        ];
        let causes = [loss(&trials[0], 8)];
        let groups = split_by_cause(group(&trials), &causes);
        assert_eq!(events(&groups), [vec![1, 2], vec![3, 4]]);
        // Their own cause divides the others again.
        let causes = [loss(&trials[0], 8), loss(&trials[2], 184)];
        let groups = split_by_cause(group(&trials), &causes);
        assert_eq!(events(&groups), [vec![1, 2], vec![3], vec![4]]);
    }

    #[test]
    fn failures_without_a_cause_of_their_own_are_no_finding_of_their_own() {
        let trials = [losing(1, &[0]), losing(2, &[128]), losing(3, &[256])];
        let first = loss(&trials[0], 8);
        let groups = split_if_known(group(&trials), std::slice::from_ref(&first));
        assert_eq!(events(&groups), [vec![1, 2, 3]]);
        let groups = split_if_known(group(&trials), &[first, loss(&trials[1], 128)]);
        assert_eq!(events(&groups), [vec![1, 3], vec![2]]);
    }

    #[test]
    fn a_store_that_is_present_too_early_explains_all_failures_of_its_group() {
        let trials = [losing(1, &[0]), losing(2, &[128])];
        let mut cause = loss(&trials[0], 8);
        cause.present = cause.absent.clone();
        let groups = split_by_cause(group(&trials), &[cause]);
        assert_eq!(events(&groups), [vec![1, 2]]);
    }
}
