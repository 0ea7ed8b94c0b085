//! Recoveries that fail on an image and pass on it when they run again.

use std::collections::HashSet;

use brownout_crash::{CrashError, CrashPoint, CrashSituation, Trial};
use brownout_recovery::Verdict;
use brownout_report::{Reason, ReasonKind};

use super::campaign_run::CampaignResults;
use super::monitor::CrashTestMonitor;
use super::plan::Plan;
use super::preparation::Prepared;
use super::runners::open_runner;
use crate::console::Console;
use crate::failure::Failure;
use crate::quantity::number_of;

/// How often recovery runs again on an image on which it has failed twice, once another failure has not repeated.
const MORE_RUNS: usize = 5;
/// On how many images it does, which bounds the time; further failures stay what they are.
const MOST_IMAGES: usize = 256;
/// Images that are in memory at the same time. Each such part needs a pass over the trace.
const IMAGES_AT_ONCE: usize = 64;

/// If a failure has not repeated, checks all others more often: a recovery that fails by chance fails twice on some images, too.
pub fn check_again(
    prepared: &Prepared,
    plan: &Plan,
    tested: &mut CampaignResults,
    interrupted: bool,
    console: &Console,
) -> Result<(), Failure> {
    let trials = &mut tested.results.trials;
    if interrupted || !trials.iter().any(Trial::is_flaky) {
        return Ok(());
    }
    console.remark("checking failures again, because recovery is not deterministic");
    let mut runner = open_runner(plan, &prepared.survey)?;
    let mut known: HashSet<&str> = HashSet::new();
    let asked: Vec<&Trial> = trials
        .iter()
        .filter(|trial| trial.is_failure() && !trial.is_flaky())
        .filter(|trial| trial.point.interruptions.is_empty() && known.insert(&trial.image))
        .take(MOST_IMAGES)
        .collect();
    let mut flaky: HashSet<String> = HashSet::new();
    for asked in asked.chunks(IMAGES_AT_ONCE) {
        let mut observer = CrashTestMonitor::new(None, console);
        let points: Vec<&CrashPoint> = asked.iter().map(|trial| &trial.point).collect();
        let files = &prepared.survey.files;
        let images = prepared.run.images_at(&points, files, &mut observer)?;
        for (trial, image) in asked.iter().zip(images) {
            let situation = CrashSituation {
                event: trial.point.event,
                operation: trial.operation,
                time_limit: prepared.time_limit,
            };
            for _ in 0..MORE_RUNS {
                let passes = runner.passes(&image.files, &situation.task());
                if passes.map_err(CrashError::from)? {
                    flaky.insert(trial.image.clone());
                    break;
                }
            }
        }
    }
    for trial in trials.iter_mut() {
        if flaky.contains(&trial.image)
            && let Some(failure) = &mut trial.failure
        {
            failure.again = Some(Verdict::Passed);
        }
    }
    Ok(())
}

/// Why failures that do not repeat leave a test undecided, if there are any.
pub fn undecided(trials: &[Trial]) -> Option<Reason> {
    let flaky = trials.iter().filter(|trial| trial.is_flaky()).count() as u64;
    (flaky > 0).then(|| {
        let text = format!(
            "recovery is not deterministic: at {} it failed, and passed when it ran again on the same image",
            number_of(flaky, "crash point")
        );
        Reason::new(ReasonKind::UndecidedTrials, text)
    })
}
