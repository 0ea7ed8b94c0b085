//! The one thing to do next, which the last line of a run names.

use brownout_report::{Report, Severity};

use crate::output_directory::{HTML, OutputDirectory};
use crate::rules;

/// What a person should do after a run with this report, if there is something.
pub fn next_step(report: &Report, directory: &OutputDirectory) -> Option<String> {
    let results = directory.shell_word();
    let crash = report.conclusion.crash.as_ref();
    // Also one that a finding of lint explains.
    let failing = report.findings().iter().find(|finding| {
        finding.severity == Severity::Bug && rules::is_of_crash_testing(&finding.rule)
    });
    if let Some(finding) = failing {
        let id = &finding.id;
        return Some(format!(
            "repeat a crash, in a debugger with --gdb: brownout replay {results} {id}"
        ));
    }
    if !report.findings().is_empty() {
        return Some(format!(
            "read the findings with their source lines: {results}/{HTML}"
        ));
    }
    // A run that did not show enough says itself what is missing.
    if !report.conclusion.is_conclusive() {
        return None;
    }
    match crash {
        None => Some(format!(
            "test crashes with the program's own recovery: brownout crash {results} --recover CMD"
        )),
        Some(coverage) => coverage
            .continue_with
            .as_ref()
            .map(|command| format!("test more crashes: {command}")),
    }
}
