//! `brownout merge`: combines the parts of a crash test.

use std::collections::HashSet;
use std::path::PathBuf;

use brownout_crash::journal::{self, Entries};
use brownout_crash::{CrashError, Journal, Shard};
use brownout_report::LeftOut;

use super::check::OUT;
use crate::arguments::MergeArgs;
use crate::console::Console;
use crate::crash_test::{
    check_same_test, coverage_sentence, demote, findings_of, judged, merged_coverage, undecided,
    unfinished, withdraw_confirmations,
};
use crate::decisions::Decisions;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::Stream;
use crate::output_directory::{JOURNAL, OutputDirectory};
use crate::results::{FindingsOf, Results, earlier_findings};
use crate::settings::Settings;
use crate::suspects;

pub fn run(arguments: &MergeArgs, console: &Console) -> Result<ExitCode, Failure> {
    let settings = Settings::new(&arguments.findings, &[], console)?;
    let decisions = Decisions::read(&settings)?;
    let mut left_out = LeftOut::default();
    let mut joined: Option<(Entries, Results, PathBuf)> = None;
    for path in &arguments.parts {
        let (part, subject, _) = OutputDirectory::open(path)?;
        let journal = part.file(JOURNAL);
        let entries = journal::read(&journal).map_err(CrashError::from)?;
        let entries = entries.ok_or_else(|| Failure::NoJournal { path: path.clone() })?;
        left_out.merge(part.conclusion()?.left_out);
        let others = earlier_findings(&part, FindingsOf::TraceAnalyses)?;
        match &mut joined {
            None => {
                let results = Results::new(subject, others);
                joined = Some((entries, results, part.trace()?));
            }
            Some((all, results, _)) => {
                let (found, wanted) = (&entries.head.configuration, &all.head.configuration);
                check_same_test(&journal, found, wanted)?;
                all.head.shards.extend(entries.head.shards);
                all.ending = all.ending.zip(entries.ending).map(|(a, b)| a.joined(b));
                all.trials.extend(entries.trials);
                all.causes.extend(entries.causes);
                // All parts have the same suspects.
                if all.suspects.is_empty() {
                    all.suspects = entries.suspects;
                }
                // All parts are of one run, so equal findings are the same. More may be joined with one in another part.
                let mut new = others;
                new.retain(|other| {
                    let known = results.findings.iter_mut();
                    let mut known = known.filter(|known| known.id == other.id);
                    known
                        .next()
                        .map(|known| known.learn_joined(other))
                        .is_none()
                });
                results.add(new, subject.gaps, console);
            }
        }
    }
    let (mut entries, mut results, trace) = joined.ok_or(Failure::NoParts)?;
    let mut seen = HashSet::new();
    entries
        .trials
        .retain(|trial| seen.insert(trial.point.clone()));
    entries.trials.sort_by(|a, b| a.point.cmp(&b.point));
    let gap = missing(&entries);

    let out = arguments.out.clone().or_else(|| settings.out.clone());
    let mut directory = OutputDirectory::claim(&out.unwrap_or_else(|| PathBuf::from(OUT)))?;
    directory.set_trace(&trace);
    results.write_unfinished(&decisions, &settings, &directory, "merging")?;
    write_journal(&entries, &directory)?;
    let mut judged = judged(
        &entries.suspects,
        &entries.trials,
        &entries.head.configuration,
    );
    let unconfirmed = withdraw_confirmations(&mut judged, &left_out);
    suspects::apply(&judged, &[], &mut results.findings);
    let mut findings = findings_of(&entries, &results.findings);
    let demoted = demote(&mut findings, &left_out);
    let flaky = undecided(&entries.trials);
    for why in [demoted, unconfirmed, flaky].into_iter().flatten() {
        results.fall_short(ExitCode::NothingTested, why);
    }
    results.left_out = left_out;
    let findings = settings.levels.apply(findings);
    results.add(findings, Vec::new(), console);
    if let Some(gap) = gap {
        results.fall_short(ExitCode::NothingTested, gap);
    }
    if let Some(coverage) = merged_coverage(&entries) {
        let failed = entries
            .trials
            .iter()
            .filter(|trial| trial.failure.is_some());
        results.covered(
            coverage_sentence(&coverage, failed.count() as u64),
            coverage,
        );
    }
    let concluded = results.conclude(
        decisions,
        &settings,
        Some(&directory),
        Stream::Output,
        console,
    )?;
    directory.announce(concluded.next.as_deref(), console);
    Ok(concluded.code)
}

/// Which parts are missing or incomplete.
fn missing(entries: &Entries) -> Option<String> {
    let head = &entries.head;
    let count = head.shards.iter().map(|shard| shard.count).max()?;
    let absent: Vec<String> = (1..=count)
        .filter(|&index| !head.shards.contains(&Shard { index, count }))
        .map(|index| format!("{index}/{count}"))
        .collect();
    let proposed = entries.trials.iter();
    let tried = proposed
        .filter(|trial| trial.reached_from.is_none())
        .count() as u64;
    let proposed = entries.ending.map(|ending| ending.proposed);
    let points = proposed.unwrap_or(head.points).max(tried);
    let why = if !absent.is_empty() {
        format!("part {} is missing", absent.join(", "))
    } else if is_incomplete(entries) {
        "a part is incomplete".to_owned()
    } else {
        return None;
    };
    Some(unfinished((tried, points), "crash point", &why))
}

fn is_incomplete(entries: &Entries) -> bool {
    let ending = entries.ending;
    ending.is_none_or(|ending| !ending.end.is_complete())
}

fn write_journal(entries: &Entries, directory: &OutputDirectory) -> Result<(), Failure> {
    let path = directory.file(JOURNAL);
    let write = || {
        let mut journal = Journal::create(&path, &entries.head)?;
        for trial in &entries.trials {
            journal.trial(trial)?;
        }
        for suspect in &entries.suspects {
            journal.suspect(suspect)?;
        }
        if let Some(ending) = &entries.ending {
            journal.ending(ending)?;
        }
        for cause in &entries.causes {
            journal.cause(cause)?;
        }
        Ok(())
    };
    write().map_err(|error: brownout_crash::JournalError| CrashError::from(error).into())
}
