//! `brownout merge`: combines the parts of a crash test.

mod parts;

use std::ffi::OsString;

use brownout_crash::TestConfiguration;
use brownout_model::Profile;
use brownout_report::{Reason, ReasonKind};

use crate::arguments::MergeArgs;
use crate::console::Console;
use crate::crash_test::{
    CrashTest, ReadFindings, Shown, coverage_sentence, merged_coverage, merged_shortfall,
    none_tested, reads_summary,
};
use crate::decisions::Decisions;
use crate::earlier_findings::{self, FindingsOf};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::Stream;
use crate::lint_run::{self, LintRun};
use crate::output_directory::OutputDirectory;
use crate::results::Results;
use crate::settings::Settings;
use crate::target_outcome;
use crate::trace_file::TraceFile;
use parts::Parts;

pub fn run(arguments: &MergeArgs, console: &Console) -> Result<ExitCode, Failure> {
    let out = arguments.out.as_deref();
    let (settings, out) = Settings::with_out(out, &arguments.findings, &[], console)?;
    let decisions = Decisions::read(&settings)?;
    let parts = Parts::read(&arguments.parts)?;
    let mut trace = TraceFile::open(&parts.trace)?;
    // What could not be recorded or read concerns all parts.
    trace.select(&[], console)?;
    let mut results = Results::new(parts.subject.clone(), parts.findings.clone());
    results.linted = parts.linted;
    results.raced = parts.raced;
    let examined = examined(&parts, &settings, console)?;
    let suspected = examined.suspects.iter().map(|suspect| &suspect.finding);
    let fresh = examined.findings.iter().chain(suspected);
    earlier_findings::complete(&mut results.findings, fresh);
    results.wrappers = examined.wrappers;
    results.wrappers.learn(&results.findings);

    for part in &arguments.parts {
        let (part, ..) = OutputDirectory::open(part)?;
        results.keep_known(&part, FindingsOf::TraceAnalyses)?;
    }

    let mut directory = OutputDirectory::claim(&out)?;
    directory.set_trace(&parts.trace);
    results.write_unfinished(&decisions, &settings, &directory, "merging")?;
    parts.write_journal(&directory)?;
    directory.write_recovery_context(&parts.context)?;
    results.shortfalls.extend(trace.shortfall());
    let accepted = target_outcome::accepted(&parts.subject.accepted_ends);
    let failed = target_outcome::recorded_failure(&trace, &accepted);
    results.shortfalls.extend(failed);
    results.note(trace.notes());
    for why in trace.notes().unshown_names(trace.persistent_files()) {
        results.fall_short(ExitCode::NothingTested, Reason::other(why));
    }
    results.carried = parts.reasons.clone();
    let suspects = match parts.results.suspects.is_empty() {
        true => Vec::new(),
        false => examined.suspects,
    };
    let test = joined(parts);
    results.add_crash_test(Ok(test), &suspects, &settings, console);
    let directory = Some(&directory);
    results.conclude(decisions, &settings, directory, Stream::Output, console)
}

/// What lint finds in the trace. What several parts have tried together may confirm a finding that no part has confirmed, and so
/// does not have among its findings; and of findings that were joined in a part, results do not keep everything.
fn examined(parts: &Parts, settings: &Settings, console: &Console) -> Result<LintRun, Failure> {
    let TestConfiguration {
        profile, patterns, ..
    } = &parts.results.configuration;
    let settings = Settings {
        model: Profile::named(profile).unwrap_or(settings.model),
        patterns: patterns.iter().map(OsString::from).collect(),
        ..settings.clone()
    };
    lint_run::examine(&parts.trace, &settings, console)
}

/// What all parts together have shown.
fn joined(parts: Parts) -> CrashTest {
    let gap = parts.gap();
    let Shown {
        findings,
        judged,
        mut shortfalls,
    } = parts.results.shown(&parts.left_out, |_| true);
    let mut reads = parts.results.reads.as_ref().map(reads_summary);
    // What fails in another part shows that recovery checks something.
    if let Some(reads) = &mut reads
        && parts.results.failed() == 0
    {
        reads.doubts.clone_from(&parts.doubts);
    }
    let cut_short = |reason: &Reason| reason.kind == ReasonKind::CutShort;
    let is_complete = gap.is_none() && !parts.reasons.iter().any(cut_short);
    let coverage = merged_coverage(&parts.results, &parts.ending, is_complete);
    match gap {
        Some(gap) => shortfalls.push(gap),
        None => shortfalls.extend(merged_shortfall(&coverage, &parts.ending)),
    }
    if parts.results.trials.is_empty() {
        shortfalls.push(none_tested(" in any of the parts"));
    }
    CrashTest {
        reads,
        read_findings: ReadFindings::new(),
        // Tests that examine reads are not distributed.
        examined_reads: false,
        findings,
        left_out: parts.left_out,
        gaps: Vec::new(),
        summary: coverage_sentence(&coverage, parts.results.failed()),
        coverage,
        judged,
        shortfalls,
    }
}
