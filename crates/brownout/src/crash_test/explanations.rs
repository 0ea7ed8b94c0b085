//! Explains failed recoveries by what they have read that could have been something else, and finds the reads of stores that are
//! late.

use brownout_crash::{
    CrashError, Explanation, ProgressObserver as _, Trial, UnpersistedReads, explain, group,
    representatives, unpersisted_reads, without_suspects,
};
use brownout_recovery::RunnerPool;

use super::campaign_run::CampaignResults;
use super::monitor::CrashTestMonitor;
use super::plan::Plan;
use super::preparation::Prepared;
use super::runners::open_runner;
use super::trial_results::TestedTrials;
use crate::failure::Failure;

/// The number of findings that are explained.
const MOST_EXPLAINED: usize = 16;

/// Adds explanations of the failures that crashes have led to which lose stores. After a crash in program order, other strategies than an
/// exploration do not say what else it could have left. Failures that need a crash inside recovery are not explained: the loads of recovery
/// are compared with the stores of the target alone.
pub fn explain_failures(
    prepared: &mut Prepared,
    plan: &Plan,
    tested: &mut CampaignResults,
    monitor: &mut CrashTestMonitor,
) -> Result<(), Failure> {
    let asked = unexplained(&tested.results, plan.strategy.tries_all);
    if monitor.interrupted() || asked.is_empty() {
        return Ok(());
    }
    monitor.begin_explaining();
    let mut pool = RunnerPool::new(vec![open_runner(plan, &prepared.survey)?]);
    let found: Vec<Explanation> = explain(
        &prepared.run,
        (&prepared.survey.files, plan.profile),
        &asked.iter().collect::<Vec<&Trial>>(),
        prepared.time_limit,
        &mut pool,
        &mut prepared.symbols,
        monitor,
    )?;
    for explanation in &found {
        let written = tested.journal.explanation(explanation);
        written.map_err(CrashError::from)?;
    }
    tested.journal.sync().map_err(CrashError::from)?;
    tested.results.explanations.extend(found);
    Ok(())
}

/// Finds the loads of recovery that read stores which are late, if that is wanted.
pub fn examine_reads(
    prepared: &mut Prepared,
    plan: &Plan,
    tested: &mut CampaignResults,
    monitor: &mut CrashTestMonitor,
) -> Result<Option<UnpersistedReads>, Failure> {
    let Some(possible) = tested.possible_reads.take() else {
        return Ok(None);
    };
    monitor.begin_explaining();
    let mut pool = RunnerPool::new(vec![open_runner(plan, &prepared.survey)?]);
    let found = unpersisted_reads(
        &prepared.run,
        (&prepared.survey.files, plan.profile),
        &possible,
        prepared.time_limit,
        &mut pool,
        &mut prepared.symbols,
        monitor,
        |point, operation| tested.results.token(point, operation),
    )?;
    Ok(Some(found))
}

/// A failure for each finding that has no explanation yet.
fn unexplained(results: &TestedTrials, explores: bool) -> Vec<Trial> {
    let groups = group(&without_suspects(&results.suspects, &results.trials));
    let mut asked = representatives(groups, &results.causes);
    asked.retain(|trial| {
        let mut explained = results.explanations.iter();
        let is_known = explained.any(|known| known.explains == trial.point);
        let is_of_target = trial.point.interruptions.is_empty();
        let loses_stores = explores || trial.point.choice.is_some();
        is_of_target && loses_stores && !trial.is_flaky() && !is_known
    });
    asked.truncate(MOST_EXPLAINED);
    asked
}
