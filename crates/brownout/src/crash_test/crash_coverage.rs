//! What a crash test has covered: in numbers, in a sentence, and what it means for the verdict.

use std::collections::BTreeMap;

use brownout_crash::object_types::TypedShare;
use brownout_crash::{
    CampaignEnd, CampaignEnding, Progress, ProgressObserver, Shard, StrategyInfo, judge,
    recovered_images, tried,
};
use brownout_report::{
    Covered, CrashCoverage, ExplorationCoverage, LeftOut, Reason, ReasonKind, StoresTyped,
};

use super::continuation::continuing_command;
use super::coverage_gap::{none_tested, not_explored, not_reordered, unfinished};
use super::monitor::CrashTestMonitor;
use super::plan::Plan;
use super::trial_results::TestedTrials;
use crate::quantity::{crashes, number_of, recoveries};

/// The numbers of a test that has just ended. A part of a test is never complete.
pub fn coverage_of(
    plan: &Plan,
    results: &TestedTrials,
    ending: &CampaignEnding,
    monitor: &CrashTestMonitor,
) -> CrashCoverage {
    let cut = match (ending.end, &ending.exploration) {
        (CampaignEnd::Exhausted | CampaignEnd::FailsEverywhere, _) => false,
        // Behaviours may also be missing for reasons that more time does not remove.
        (_, Some(_)) => monitor.has_stopped_trials(),
        (_, None) => true,
    };
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
    results: &TestedTrials,
    ending: &CampaignEnding,
    complete: bool,
) -> CrashCoverage {
    CrashCoverage {
        complete,
        ..numbers(results, ending)
    }
}

fn numbers(results: &TestedTrials, ending: &CampaignEnding) -> CrashCoverage {
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
    let (failure_points, occurrences) = match &ending.exploration {
        // A crash time at which all behaviours are known needs no recovery of its own.
        Some(exploration) => (exploration.failure_points, exploration.crash_times),
        None => (
            Covered::new(tried.failure_points, of.failure_points),
            Covered::new(tried.occurrences, of.occurrences),
        ),
    };
    CrashCoverage {
        strategy: results.configuration.strategy.name.clone(),
        failure_points,
        occurrences,
        exploration: ending.exploration.clone(),
        suspects: Covered::new(tried_suspects, suspects.len() as u64),
        suspects_not_tried,
        stores: Covered::new(tried.stores, of.stores),
        orders: Covered::new(tried.orders, of.orders),
        behaviours: Covered::new(tried.behaviours, of.behaviours),
        behaviours_sampled: of.behaviours_sampled,
        stores_typed: stores_typed(of.typed),
        behaviours_unknown: of.behaviours_unknown,
        behaviours_tested_earlier: of.remembered,
        shared_starts: ending.shared_starts.clone(),
        recoveries: recovered_images(&results.trials),
        seconds: ending.seconds,
        ..CrashCoverage::default()
    }
}

fn stores_typed(share: TypedShare) -> Option<StoresTyped> {
    (share.stores() > 0).then_some(StoresTyped {
        debug_information: share.debug_info,
        allocation: share.allocation,
        structural: share.structural,
        none: share.none,
    })
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
    if let Some(typed) = &coverage.stores_typed {
        text.push_str(&format!("; {typed}"));
    }
    match &coverage.continue_with {
        Some(command) => text.push_str(&format!("; for more: `{command}`")),
        None if coverage.complete => text.push_str(&options_for_more(coverage)),
        None => {}
    }
    text
}

/// The options that try what a finished test has not: of what there is very often, it chooses some.
fn options_for_more(coverage: &CrashCoverage) -> String {
    let is_left = |covered: Covered| covered.tried < covered.of;
    let mut text = String::new();
    let strategy = StrategyInfo::named(&coverage.strategy);
    let tests_behaviours = strategy.is_some_and(|strategy| strategy.tests_behaviours);
    if is_left(coverage.occurrences) && !tests_behaviours {
        text.push_str("; `--occurrences N` tries N occurrences of each failure point");
    }
    if is_left(coverage.orders) {
        text.push_str("; `--in-function FUNCTION` tries more of the open orders in one function");
    }
    if is_left(coverage.stores) {
        text.push_str("; `--granularity store --occurrences N` tries N states before each store");
    }
    text
}

/// Why a test shows too little.
pub fn shortfalls(
    plan: &Plan,
    coverage: &CrashCoverage,
    ending: &CampaignEnding,
    progress: Progress,
    monitor: &CrashTestMonitor,
    left_out: &LeftOut,
) -> Vec<Reason> {
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
    let exploration = ending.exploration.iter();
    let unexplored: Vec<Reason> = exploration
        .flat_map(|exploration| unexplored(exploration, plan, monitor))
        .collect();
    if !unexplored.is_empty() {
        return unexplored.into_iter().chain(running).collect();
    }
    if is_finished(ending, monitor) {
        let in_order = only_in_order(coverage, monitor.reason());
        return in_order.into_iter().chain(running).collect();
    }
    let why = match ending.end {
        CampaignEnd::FailsEverywhere => {
            "recovery failed at each of them in the same way, so the others were not tested"
                .to_owned()
        }
        _ => format!("{}; {}", monitor.reason(), more(plan)),
    };
    let Covered { tried, of } = coverage.failure_points;
    let mut unfinished = if tried < of {
        unfinished((tried, of), "failure point", &why)
    } else {
        unfinished((progress.done, progress.points), "crash point", &why)
    };
    if ending.end.is_complete() {
        // Only the interruption keeps the test from being finished.
        unfinished.kind = ReasonKind::CutShort;
    }
    [unfinished].into_iter().chain(running).collect()
}

/// Why all parts of a test together show too little, although none is missing or unfinished.
pub fn merged_shortfall(coverage: &CrashCoverage, ending: &CampaignEnding) -> Option<Reason> {
    match ending.end {
        CampaignEnd::Sufficient => only_in_order(coverage, "the time of no part was enough"),
        _ => None,
    }
}

/// Why a test in which stores persist only in the order of the program shows too little, although each failure point was tried.
fn only_in_order(coverage: &CrashCoverage, why: &str) -> Option<Reason> {
    let not_tried: u64 = coverage.suspects_not_tried.values().sum();
    let suspects = Covered::new(
        coverage.suspects.tried,
        coverage.suspects.of.saturating_sub(not_tried),
    );
    let reordered = [suspects, coverage.orders, coverage.behaviours];
    let has_others = coverage.behaviours_unknown || reordered.iter().any(|covered| covered.of > 0);
    let is_tried = reordered.iter().any(|covered| covered.tried > 0);
    (has_others && !is_tried).then(|| not_reordered(why))
}

/// How more is tested.
fn more(plan: &Plan) -> &'static str {
    match plan.is_swept {
        true => "raise --time-limit",
        false => "--resume continues",
    }
}

/// Why behaviours of recovery may be missing.
fn unexplored(
    exploration: &ExplorationCoverage,
    plan: &Plan,
    monitor: &CrashTestMonitor,
) -> impl Iterator<Item = Reason> {
    let waiting = (exploration.waiting > 0).then(|| {
        let inside = exploration.inside_recovery.iter();
        let inside = inside.fold(Covered::default(), |sum, covered| Covered {
            tried: sum.tried + covered.tried,
            of: sum.of + covered.of,
        });
        let times = exploration.crash_times;
        let counts = [
            (times, number_of(times.of, "crash time")),
            (inside, crashes_inside(inside.of)),
        ];
        let open: Vec<String> = counts
            .into_iter()
            .filter(|(covered, _)| covered.tried < covered.of)
            .map(|(covered, all)| format!("{} of {all}", covered.of - covered.tried))
            .collect();
        let missing = format!(
            "at {} not all behaviours of recovery are known",
            open.join(" and ")
        );
        if monitor.has_stopped_trials() {
            format!("{missing}: {}; {}", monitor.reason(), more(plan))
        } else {
            missing
        }
    });
    let gaps = exploration.gaps.iter().cloned();
    waiting
        .into_iter()
        .chain(gaps)
        .map(|why| not_explored(&why))
}

/// `1 crash inside recovery`, `2 crashes inside recovery`.
fn crashes_inside(count: u64) -> String {
    format!("{} inside recovery", crashes(count))
}

/// Recoveries that took longer than the test had time for: nobody knows whether they end.
fn still_running(progress: Progress, monitor: &CrashTestMonitor) -> Option<Reason> {
    let is_known = progress.running == 0 || monitor.interrupted();
    (!is_known).then(|| {
        let (were, they) = match progress.running {
            1 => ("was", "it"),
            _ => ("were", "they"),
        };
        Reason::other(format!(
            "{} {were} still running when the time limit was reached, longer than any that passed; {they} may hang{}; raise \
             --time-limit, or lower --recover-time-limit",
            recoveries(progress.running),
            after_crashes_at(monitor.running())
        ))
    })
}

/// ` after a crash at kv.c:7 (and at 2 other lines)`, if the lines are known.
fn after_crashes_at(lines: &[String]) -> String {
    match lines {
        [] => String::new(),
        [only] => format!(" after a crash at {only}"),
        [first, others @ ..] => {
            let others = number_of(others.len() as u64, "other line");
            format!(" after a crash at {first} (and at {others})")
        }
    }
}

/// Why a test that has come to its end has not tested any crash, if it has not.
fn nothing_to_test(
    part: Shard,
    ending: &CampaignEnding,
    progress: Progress,
    left_out: &LeftOut,
) -> Option<Reason> {
    if ending.extent.failure_points == 0 {
        return Some(match left_out.failure_points {
            0 => none_tested(": there is no failure point"),
            _ => {
                let why = left_out.sentences().swap_remove(0);
                none_tested(&format!(": there is no other failure point; {why}"))
            }
        });
    }
    // What earlier runs have tested is named as left out, or counted.
    let explored = ending.exploration.as_ref();
    let remembered = explored.map_or(0, |known| known.remembered) + ending.extent.remembered;
    (progress.done == 0 && remembered == 0).then(|| match part == Shard::default() {
        true => none_tested(": there is no crash image to try"),
        false => none_tested(&format!(
            ": none of the crash images belongs to part {part}; \
             `brownout merge` shows what all parts have tested"
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_test_names_the_options_that_try_more() {
        let mut coverage = CrashCoverage {
            failure_points: Covered::new(3, 3),
            occurrences: Covered::new(3, 9),
            orders: Covered::new(9_001, 157_068),
            stores: Covered::new(900, 15_000),
            complete: true,
            ..CrashCoverage::default()
        };
        let occurrences = "`--occurrences N` tries";
        let orders = "`--in-function FUNCTION` tries more";
        let states = "`--granularity store --occurrences N` tries";
        let text = coverage_sentence(&coverage, 0);
        assert!(
            text.contains(occurrences) && text.contains(states) && text.contains(orders),
            "{text}"
        );
        coverage.occurrences = Covered::new(9, 9);
        let text = coverage_sentence(&coverage, 0);
        assert!(
            !text.contains(occurrences) && text.contains(states),
            "{text}"
        );
        // More of the same test comes first.
        coverage.continue_with = Some("brownout check --resume".to_owned());
        let text = coverage_sentence(&coverage, 0);
        assert!(
            text.ends_with("; for more: `brownout check --resume`"),
            "{text}"
        );
    }

    #[test]
    fn a_test_that_had_no_time_to_lose_stores_does_not_pass() {
        let falls_short =
            |coverage| only_in_order(&coverage, "the time limit was reached").is_some();
        let in_order = CrashCoverage {
            failure_points: Covered::new(4, 4),
            orders: Covered::new(0, 182),
            ..CrashCoverage::default()
        };
        assert!(falls_short(in_order.clone()));
        assert!(!falls_short(CrashCoverage {
            suspects: Covered::new(1, 2),
            ..in_order.clone()
        }));
        // Where there is nothing to lose, nothing is missing.
        let without_orders = CrashCoverage {
            orders: Covered::new(0, 0),
            ..in_order
        };
        assert!(!falls_short(without_orders.clone()));
        assert!(falls_short(CrashCoverage {
            behaviours_unknown: true,
            ..without_orders.clone()
        }));
        assert!(!falls_short(CrashCoverage {
            suspects: Covered::new(0, 2),
            suspects_not_tried: BTreeMap::from([("reason".to_owned(), 2)]),
            ..without_orders
        }));
    }
}
