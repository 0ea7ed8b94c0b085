//! What a crash test has covered: in numbers, in a sentence, and what it means for the verdict.

use std::collections::BTreeMap;

use brownout_crash::{
    CampaignEnd, CampaignEnding, Progress, ProgressObserver, Shard, judge, tried,
};
use brownout_report::{Covered, CrashCoverage, LeftOut};

use super::continuation::continuing_command;
use super::coverage_gap::{none_tested, unfinished};
use super::monitor::CrashTestMonitor;
use super::plan::Plan;
use super::trial_results::TrialResults;
use crate::quantity::{number_of, recoveries};

/// The numbers of a test that has just ended. A part of a test is never complete.
pub fn coverage_of(
    plan: &Plan,
    results: &TrialResults,
    ending: &CampaignEnding,
    monitor: &CrashTestMonitor,
) -> CrashCoverage {
    let cut = !matches!(
        ending.end,
        CampaignEnd::Exhausted | CampaignEnd::FailsEverywhere
    );
    let continue_with = plan
        .time_limit
        .filter(|_| cut)
        .and_then(|limit| continuing_command(plan.target_arguments, limit));
    let part = (plan.shard != Shard::default()).then(|| plan.shard.to_string());
    CrashCoverage {
        time_limit: plan.time_limit.map(|limit| limit.as_secs_f64()),
        limit_reached: cut && !monitor.interrupted(),
        complete: part.is_none() && is_finished(ending, monitor),
        part,
        continue_with,
        ..numbers(results, ending)
    }
}

/// Whether everything was tried that this test, or this part of one, has to try.
fn is_finished(ending: &CampaignEnding, monitor: &CrashTestMonitor) -> bool {
    ending.end.is_complete() && !monitor.interrupted()
}

/// The numbers of a test in parts. `complete`: no part is missing or unfinished.
pub fn merged_coverage(
    results: &TrialResults,
    ending: &CampaignEnding,
    complete: bool,
) -> CrashCoverage {
    CrashCoverage {
        complete,
        ..numbers(results, ending)
    }
}

fn numbers(results: &TrialResults, ending: &CampaignEnding) -> CrashCoverage {
    let (tried, of) = (tried(&results.trials), ending.extent);
    let suspects = &results.suspects;
    let verdicts = judge(suspects, &results.trials);
    let mut tried_suspects = 0;
    let mut suspects_not_tried: BTreeMap<String, u64> = BTreeMap::new();
    for (suspect, verdict) in suspects.iter().zip(&verdicts) {
        match suspect.no_image {
            Some(reason) if verdict.confirmed != Some(true) => {
                let count = suspects_not_tried.entry(reason.name().to_owned());
                *count.or_default() += 1;
            }
            _ => tried_suspects += u64::from(verdict.tried > 0),
        }
    }
    CrashCoverage {
        strategy: results.configuration.strategy.name.clone(),
        failure_points: Covered::new(tried.failure_points, of.failure_points),
        occurrences: Covered::new(tried.occurrences, of.occurrences),
        suspects: Covered::new(tried_suspects, suspects.len() as u64),
        suspects_not_tried,
        stores: Covered::new(tried.stores, of.stores),
        orders: Covered::new(tried.orders, of.orders),
        recoveries: brownout_crash::recoveries(&results.trials),
        seconds: ending.seconds,
        ..CrashCoverage::default()
    }
}

/// How the sentence about what was covered starts.
const SENTENCE_START: &str = "crashes tested at ";

/// Whether a sentence says what crash testing has covered.
pub fn is_coverage_sentence(sentence: &str) -> bool {
    sentence.starts_with(SENTENCE_START)
}

/// What was covered, in a sentence.
pub fn coverage_sentence(coverage: &CrashCoverage, failed: u64) -> String {
    let mut text = format!(
        "{SENTENCE_START}{coverage}, with {} on different images in {:.1} s; recovery failed at {}",
        recoveries(coverage.recoveries),
        coverage.seconds,
        number_of(failed, "crash point"),
    );
    if let Some(command) = &coverage.continue_with {
        text.push_str(&format!("; for more: `{command}`"));
    }
    text
}

/// Why a test shows too little, in sentences.
pub fn shortfalls(
    plan: &Plan,
    coverage: &CrashCoverage,
    ending: &CampaignEnding,
    progress: Progress,
    monitor: &CrashTestMonitor,
    left_out: &LeftOut,
) -> Vec<String> {
    if ending.end == CampaignEnd::Exhausted {
        return nothing_to_test(plan.shard, ending, progress, left_out)
            .into_iter()
            .collect();
    }
    let running = still_running(progress, monitor);
    if progress.done == 0 {
        let none = none_tested(": testing stopped before the first one");
        return [none].into_iter().chain(running).collect();
    }
    if is_finished(ending, monitor) {
        return running.into_iter().collect();
    }
    let why = match ending.end {
        CampaignEnd::FailsEverywhere => {
            "recovery failed at each of them in the same way, so the others were not tested"
                .to_owned()
        }
        _ => format!("{}; --resume continues", monitor.reason()),
    };
    let Covered { tried, of } = coverage.failure_points;
    let unfinished = if tried < of {
        unfinished((tried, of), "failure point", &why)
    } else {
        unfinished((progress.done, progress.points), "crash point", &why)
    };
    [unfinished].into_iter().chain(running).collect()
}

/// Recoveries that took longer than the test had time for, in a sentence: nobody knows whether they end.
fn still_running(progress: Progress, monitor: &CrashTestMonitor) -> Option<String> {
    let is_known = progress.running == 0 || monitor.interrupted();
    (!is_known).then(|| {
        let they = if progress.running == 1 { "it" } else { "they" };
        format!(
            "{} had not ended when the time was over, and took longer than those that passed: {they} may hang; give more time with \
             --time-limit, or a recovery less time with --recover-time-limit",
            recoveries(progress.running)
        )
    })
}

/// Why a test that has come to its end has not tested any crash, if it has not.
fn nothing_to_test(
    part: Shard,
    ending: &CampaignEnding,
    progress: Progress,
    left_out: &LeftOut,
) -> Option<String> {
    if ending.extent.failure_points == 0 {
        return Some(match left_out.failure_points {
            0 => none_tested(": there is no failure point"),
            _ => {
                let why = left_out.sentences().swap_remove(0);
                none_tested(&format!(": there is no other failure point; {why}"))
            }
        });
    }
    (progress.done == 0).then(|| {
        none_tested(&format!(
            ": none of the crash images belongs to part {part}; \
             `brownout merge` shows what all parts have tested"
        ))
    })
}
