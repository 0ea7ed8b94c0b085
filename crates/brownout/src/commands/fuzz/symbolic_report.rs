//! What symbolic workers have done: what was reached of the operations on persistent memory, which branches are unsolved and why, and what
//! replay did not get right.

use brownout_fuzz::{CampaignStatus, FuzzCampaign, SymbolicFigures, SymbolicStatus, UnsolvedCause};
use brownout_report::{Reason, ReasonKind, SymbolicCoverage};

use crate::exit_code::ExitCode;
use crate::quantity::number_of;
use crate::results::Results;

/// Source lines that a sentence names.
const MOST_LINES: usize = 8;

/// Adds what symbolic workers have done to the results.
pub fn conclude(campaign: &FuzzCampaign, status: &CampaignStatus, results: &mut Results) {
    let Some(symbolic) = &status.symbolic else {
        return;
    };
    let SymbolicStatus {
        figures, progress, ..
    } = symbolic;
    results.add_tested(search_sentence(figures));
    results.add_tested(format!(
        "{} of {} of the program that modify persistent memory were reached",
        progress.reached,
        number_of(progress.known as u64, "known instruction"),
    ));
    let lines = campaign.operation_lines();
    let unreached: Vec<&str> = lines
        .iter()
        .filter(|line| !line.is_reached)
        .map(|line| line.place.as_str())
        .collect();
    if !unreached.is_empty() {
        results.add_tested(format!("not reached: {}", shortened(&unreached)));
    }
    results.add_tested(branches_sentence(symbolic));
    let unsolved = campaign.unsolved_branches();
    for (cause, phrase) in CAUSES {
        let places = unsolved.iter().filter(|(_, known)| known == cause);
        let mut places: Vec<&str> = places.map(|(place, _)| place.as_str()).collect();
        places.dedup();
        if !places.is_empty() {
            results.add_tested(format!("{phrase}: {}", shortened(&places)));
        }
    }
    note_gaps(figures, results);
    results.symbolic = Some(coverage(symbolic, &unreached));
    let is_unsolved = figures.queries == 0 && figures.waiting > 0;
    if figures.symbolic_steps == 0 || is_unsolved {
        let why = match figures.executions {
            0 => "no path was replayed: the campaign ended first",
            _ if is_unsolved => "no input was solved for: the campaign ended first",
            _ => {
                "nothing that the program does depends on the bytes that are symbolic; give its input to --symbolic"
            }
        };
        let reason = Reason::new(ReasonKind::CoverageGap, why);
        results.fall_short(ExitCode::NothingTested, reason);
    }
}

const CAUSES: &[(UnsolvedCause, &str)] = &[
    (
        UnsolvedCause::Impossible,
        "branches that no input takes on the paths that were tried",
    ),
    (
        UnsolvedCause::Concretised,
        "branches behind values that are not modelled",
    ),
    (
        UnsolvedCause::TimedOut,
        "branches for which the solver ran out of time (--query-time)",
    ),
    (
        UnsolvedCause::Diverged,
        "branches whose solved inputs went elsewhere",
    ),
];

fn coverage(symbolic: &SymbolicStatus, unreached: &[&str]) -> SymbolicCoverage {
    let SymbolicStatus {
        figures,
        progress,
        branches,
    } = symbolic;
    SymbolicCoverage {
        paths: figures.paths,
        instructions: figures.steps,
        symbolic_instructions: figures.symbolic_steps,
        queries: figures.queries,
        queries_remembered: figures.remembered,
        queries_timed_out: figures.query_timeouts,
        solver_seconds: figures.solver_time.as_secs_f64(),
        record_seconds: figures.record_time.as_secs_f64(),
        replay_seconds: figures.replay_time.as_secs_f64(),
        solved: figures.solved,
        solved_optimistically: figures.optimistic,
        followed: figures.followed,
        diverged: figures.diverged,
        mismatches: figures.mismatches,
        damaged: figures.damaged,
        cut_off: figures.cut_off,
        concretised: figures.concretised.values().sum(),
        concretised_by_cause: figures.concretised.clone(),
        sent: figures.sent,
        operations_known: progress.known as u64,
        operations_reached: progress.reached as u64,
        unreached: unreached.iter().map(|place| (*place).to_owned()).collect(),
        branches_both_ways: branches.both as u64,
        branches_impossible: branches.impossible as u64,
        branches_concretised: branches.concretised as u64,
        branches_timed_out: branches.timed_out as u64,
        branches_diverged: branches.diverged as u64,
        branches_not_tried: branches.waiting as u64,
        waiting: figures.waiting as u64,
        exhausted: figures.is_exhausted,
    }
}

fn search_sentence(figures: &SymbolicFigures) -> String {
    let end = match figures.is_exhausted {
        true => "nothing was left to try".to_owned(),
        false => format!("{} waiting", number_of(figures.waiting as u64, "test case")),
    };
    format!(
        "{} replayed ({} of {} depend on the input), {} in {:.1} s, {} solved, {end}",
        number_of(figures.paths, "path"),
        figures.symbolic_steps,
        number_of(figures.steps, "instruction"),
        number_of(figures.queries, "solver call"),
        figures.solver_time.as_secs_f64(),
        number_of(figures.solved, "input"),
    )
}

fn branches_sentence(symbolic: &SymbolicStatus) -> String {
    let branches = &symbolic.branches;
    format!(
        "of the branches on the input {} went both ways and {} one way ({} impossible, {} behind values that are not modelled, {} timed \
         out, {} diverged, {} not tried)",
        branches.both,
        branches.unsolved(),
        branches.impossible,
        branches.concretised,
        branches.timed_out,
        branches.diverged,
        branches.waiting,
    )
}

/// What the search may have missed.
fn note_gaps(figures: &SymbolicFigures, results: &mut Results) {
    let gaps = &mut results.subject.gaps;
    if figures.mismatches > 0 {
        let first = figures.first_mismatch.as_deref().unwrap_or_default();
        gaps.push(format!(
            "replay computed {} differently from the processor; this is a bug in brownout, please report it (first: {first})",
            number_of(figures.mismatches, "value"),
        ));
    }
    if figures.diverged > 0 {
        gaps.push(format!(
            "{} of {} diverged from the predicted path",
            figures.diverged,
            number_of(figures.followed + figures.diverged, "compared solved input"),
        ));
    }
    let counted = [
        (figures.damaged, "recording of a path", "could not be read"),
        (
            figures.cut_off,
            "path",
            "was cut off, because it is too long or took too long (--timeout)",
        ),
        (
            figures.other_processes,
            "process",
            "that read symbolic bytes was not followed",
        ),
        (
            figures.overwritten,
            "symbolic byte",
            "was overwritten by something other than the program",
        ),
        (
            figures.sent,
            "symbolic byte",
            "was written to a file, a pipe or a socket, and not followed from there",
        ),
    ];
    for (count, noun, what) in counted.into_iter().filter(|(count, ..)| *count > 0) {
        let what = match count {
            1 => what.to_owned(),
            _ => what.replacen("was ", "were ", 1),
        };
        gaps.push(format!("{} {what}", number_of(count, noun)));
    }
}

fn shortened(places: &[&str]) -> String {
    let shown = places.iter().take(MOST_LINES);
    let shown: Vec<&str> = shown.copied().collect();
    match places.len().saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
