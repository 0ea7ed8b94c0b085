//! The one thing to do next, which the last line of a run names.

use brownout_report::{Category, Evidence, Finding, ReasonKind, Report, RunEnd, Severity};

use crate::crash_test::shell_word;
use crate::output_directory::{HTML, OutputDirectory};
use crate::{rules, suspects};

/// What a person should do after a run with this report, if there is something. `recovery` is the command that the run was given,
/// `better_profile` a persistency profile that fits the target better than the one in use.
pub fn next_step(
    report: &Report,
    directory: &OutputDirectory,
    recovery: Option<&str>,
    better_profile: Option<&str>,
) -> Option<String> {
    let results = directory.shell_word();
    let crash_command = || {
        if directory.holds_campaign() {
            return "fuzz with --recover CMD, and results in another directory with --out"
                .to_owned();
        }
        let model = better_profile.map(|profile| format!("--model {profile} "));
        let model = model.unwrap_or_default();
        let recovery = recovery.map_or_else(|| "CMD".to_owned(), shell_word);
        format!("brownout crash {results} {model}--recover {recovery}")
    };
    let crash = report.conclusion.crash.as_ref();
    // Also one that a finding of lint explains.
    let failing = report.findings().iter().find(|finding| {
        let is_repeatable =
            rules::is_crash_rule(&finding.rule) || rules::is_target_rule(&finding.rule);
        finding.severity == Severity::Bug && is_repeatable
    });
    if let Some(finding) = failing {
        let id = &finding.id;
        return Some(format!(
            "repeat a crash, in a debugger with --gdb: brownout replay {results} {id}"
        ));
    }
    let is_conclusive = report.conclusion.is_conclusive();
    let mut reasons = report.conclusion.reasons.0.iter();
    if report.conclusion.end == RunEnd::TargetFailed
        && reasons.any(|reason| reason.kind == ReasonKind::RecoveryFailedWithoutCrash)
    {
        return Some(format!(
            "make recovery pass on the files that the program leaves, then test crashes: {}",
            crash_command()
        ));
    }
    let has_bugs = report
        .causes()
        .any(|finding| finding.severity == Severity::Bug);
    if let Some(step) = untested(report).filter(|_| !has_bugs) {
        return Some(match step {
            Untested::NothingRead => format!(
                "test crashes with a recovery that reads the persistent files: brownout crash {results} --recover CMD"
            ),
            Untested::HiddenStatus => format!(
                "test crashes with a recovery that fails if it finds damage: brownout crash {results} --recover CMD"
            ),
            Untested::UnrecordedProgram => {
                "check again with a build of that program that can be recorded, or without it"
                    .to_owned()
            }
            Untested::Rest(command) => format!("test what is left: {command}"),
        });
    }
    if has_bugs {
        let read = format!("read the findings with their source lines: {results}/{HTML}");
        return Some(match crash {
            None if is_conclusive => format!("{read}; then test crashes: {}", crash_command()),
            _ => read,
        });
    }
    if let Some(step) = about_warnings(report, is_conclusive, &results, recovery, crash_command) {
        return Some(step);
    }
    let explain_first = || report.causes().next().map(explain);
    // A run that did not show enough says itself what is missing.
    if !is_conclusive {
        return explain_first();
    }
    let Some(coverage) = crash else {
        return Some(format!(
            "test crashes with the program's own recovery: {}",
            crash_command()
        ));
    };
    let more = coverage.continue_with.as_ref();
    let more = more.map(|command| format!("test more crashes: {command}"));
    let other_model = || format!("test crashes under the other model: {}", crash_command());
    more.or_else(|| better_profile.map(|_| other_model()))
        .or_else(explain_first)
}

/// How to find out whether a warning matters. What only costs time can wait.
fn about_warnings(
    report: &Report,
    is_conclusive: bool,
    results: &str,
    recovery: Option<&str>,
    crash_command: impl Fn() -> String,
) -> Option<String> {
    let warnings = || {
        let lesser = report.lesser();
        lesser.filter(|finding| finding.category != Category::Performance)
    };
    let is_untested = is_conclusive && report.conclusion.crash.is_none();
    if is_untested && warnings().any(|finding| suspects::is_tried(&finding.rule)) {
        return Some(format!(
            "find out which warnings matter, with the program's own recovery: {}",
            crash_command()
        ));
    }
    if is_conclusive && warnings().any(is_unforced_race) {
        let recovery = recovery.map_or_else(|| "CMD".to_owned(), shell_word);
        return Some(format!(
            "find out whether a race does harm: brownout race {results} --confirm --recover {recovery}"
        ));
    }
    warnings().next().map(explain)
}

fn is_unforced_race(finding: &Finding) -> bool {
    let details = &finding.evidence.details;
    rules::is_race_rule(&finding.rule) && !details.contains_key(Evidence::FORCED)
}

fn explain(finding: &Finding) -> String {
    format!(
        "see how to fix a finding: brownout explain {}",
        finding.rule
    )
}

/// What the user can do about a run that did not show enough.
enum Untested<'a> {
    NothingRead,
    HiddenStatus,
    UnrecordedProgram,
    /// Crashes that this command tests.
    Rest(&'a str),
}

fn untested(report: &Report) -> Option<Untested<'_>> {
    let conclusion = &report.conclusion;
    let mut reasons = conclusion.reasons.0.iter();
    reasons.find_map(|reason| match reason.kind {
        ReasonKind::NothingRead => Some(Untested::NothingRead),
        ReasonKind::HiddenStatus => Some(Untested::HiddenStatus),
        ReasonKind::UnrecordedProgram => Some(Untested::UnrecordedProgram),
        kind if kind.is_of_untried_crashes() => {
            let command = conclusion.crash.as_ref()?.continue_with.as_deref();
            command.map(Untested::Rest)
        }
        _ => None,
    })
}
