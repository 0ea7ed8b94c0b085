//! Which failures the search for causes begins with, and the search.

use brownout_crash::{
    CrashError, ProgressObserver, SuspectedStores, Trial, group, narrow, passed_in_order,
    split_by_cause, without_suspects,
};
use brownout_recovery::RunnerPool;

use super::campaign_run::CampaignResults;
use super::monitor::CrashTestMonitor;
use super::plan::Plan;
use super::preparation::Prepared;
use super::runners::open_runners;
use super::trial_results::TestedTrials;
use crate::console::Console;
use crate::failure::Failure;

/// The number of findings whose causes are searched for at a time.
const MOST_NARROWED: usize = 64;
/// How often the search begins again for failures that no cause explains so far.
const MOST_ROUNDS: usize = 4;

/// Searches for the stores that make the difference between failures and images that pass, and adds them to the results.
pub fn search_causes(
    prepared: &mut Prepared,
    (plan, suspected): (&Plan, &SuspectedStores),
    tested: &mut CampaignResults,
    monitor: &mut CrashTestMonitor,
    console: &Console,
) -> Result<(), Failure> {
    let mut asked = unexplained(&tested.results);
    if monitor.interrupted() || !plan.narrowing || asked.is_empty() {
        return Ok(());
    }
    let runners = match tested.runners.take() {
        Some(runners) => runners,
        None => open_runners(plan, &prepared.survey, console)?,
    };
    let mut pool = RunnerPool::new(runners);
    monitor.begin_narrowing(asked.len());
    for round in 1..=MOST_ROUNDS {
        let found = narrow(
            &prepared.run,
            &prepared.survey.files,
            (asked, &tested.results.trials, suspected),
            &plan.scope.operations,
            prepared.time_limit,
            &mut pool,
            &mut prepared.symbols,
            monitor,
        )?;
        for cause in &found {
            tested.journal.cause(cause).map_err(CrashError::from)?;
        }
        tested.journal.sync().map_err(CrashError::from)?;
        tested.results.causes.extend(found);
        // A cause may explain only some of the failures that look alike.
        asked = unexplained(&tested.results);
        if asked.is_empty() || round == MOST_ROUNDS || monitor.stop() {
            break;
        }
        monitor.continue_narrowing(asked.len());
    }
    Ok(())
}

/// A failure for each finding that has no cause yet, the most promising ones.
fn unexplained(results: &TestedTrials) -> Vec<Trial> {
    let TestedTrials { trials, causes, .. } = results;
    let groups = group(&without_suspects(&results.suspects, trials));
    let mut asked: Vec<Trial> = split_by_cause(groups, causes)
        .iter()
        .map(|group| group.first().clone())
        // Searching needs a recovery that does the same each time.
        .filter(|first| !first.is_flaky())
        .filter(|first| !causes.iter().any(|cause| cause.cause_of == first.point))
        .collect();
    most_promising_first(&mut asked, trials);
    asked.truncate(MOST_NARROWED);
    asked
}

/// Sorts failures by how much the search for their causes promises: those in operations first, whose code the user asks
/// about, then those between and before operations; and those first that are near an image that passed.
fn most_promising_first(failures: &mut [Trial], trials: &[Trial]) {
    let passed = passed_in_order(trials);
    failures.sort_by_key(|failure| {
        let operation = failure.operation.unwrap_or_default();
        let before = passed.partition_point(|&event| event < failure.point.event);
        let nearest = before.checked_sub(1).map_or(0, |at| passed[at]);
        let distance = failure.point.event - nearest;
        (!operation.active, operation.completed == 0, distance)
    });
}

#[cfg(test)]
mod tests {
    use brownout_crash::{CrashPoint, Operation, PointKind, TrialPurpose};
    use brownout_recovery::Verdict;

    use super::*;

    fn trial(event: u64, verdict: Verdict, completed: u64, active: bool) -> Trial {
        Trial {
            point: CrashPoint::program_order(event),
            kind: PointKind::Fence,
            purpose: TrialPurpose::FailurePoint,
            operation: Some(Operation { completed, active }),
            image: event.to_string(),
            same_as: None,
            reached_from: None,
            verdict,
            fails_anyway: false,
            seconds: 0.0,
            failure: None,
            observation: None,
            behaviour: None,
            indirect: None,
        }
    }

    #[test]
    fn failures_inside_operations_near_an_image_that_passed_come_first() {
        let failed = |event, completed, active| trial(event, Verdict::Failed(1), completed, active);
        let passed = [20, 50].map(|event| trial(event, Verdict::Passed, 1, true));
        let mut failures = vec![
            failed(10, 0, false),
            failed(35, 1, false),
            failed(40, 1, true),
            failed(52, 2, true),
            failed(12, 0, true),
        ];
        let trials: Vec<Trial> = failures.iter().chain(&passed).cloned().collect();
        most_promising_first(&mut failures, &trials);
        let order: Vec<u64> = failures.iter().map(|trial| trial.point.event).collect();
        // Inside later operations, inside the first one, between operations, before the first one.
        assert_eq!(order, [52, 40, 12, 35, 10]);
    }
}
