//! Results on their way to the directory, the screen and the exit code.

use std::fs;
use std::path::Path;

use brownout_report::{
    Finding, Report, Subject, Suppressed, parse_json_lines, parse_suppressed_lines,
};

use crate::console::Console;
use crate::decisions::Decisions;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::{self, Stream};
use crate::output_directory::{FINDINGS, OutputDirectory, SUPPRESSED};
use crate::rules;
use crate::settings::Settings;
use crate::trace_file::TraceFile;

/// Who sees results at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    To(Stream),
    ToNobody,
}

/// What analyses have found so far.
pub struct Results {
    pub subject: Subject,
    pub findings: Vec<Finding>,
}

impl Results {
    /// None yet, about the program that was recorded in `trace`.
    pub fn about(trace: &TraceFile, settings: &Settings) -> Self {
        Self {
            subject: subject(trace, settings, trace.gap().into_iter().collect()),
            findings: Vec::new(),
        }
    }

    /// Takes over what other analyses than crash testing have found in the same trace.
    pub fn keep_others(
        &mut self,
        directory: &OutputDirectory,
        trace: &Path,
    ) -> Result<(), Failure> {
        if directory.is_about(trace) && directory.file(FINDINGS).exists() {
            self.findings.extend(findings_of_others(directory)?);
        }
        Ok(())
    }

    /// Adds what an analysis found, and what it could not do.
    pub fn add(&mut self, findings: Vec<Finding>, gaps: Vec<String>, console: &Console) {
        self.findings.extend(findings);
        for gap in gaps {
            if !self.subject.gaps.contains(&gap) {
                console.warn(&gap);
                self.subject.gaps.push(gap);
            }
        }
    }

    /// Writes everything to the directory, prints it, and tells how the command ends.
    pub fn conclude(
        self,
        decisions: Decisions,
        settings: &Settings,
        directory: &OutputDirectory,
        shown: Shown,
        console: &Console,
    ) -> Result<ExitCode, Failure> {
        let mut report = Report::new(self.subject, rules::in_force(settings), self.findings);
        decisions.apply(&mut report, settings, console)?;
        finding_output::write_all(&report, directory)?;
        if let Shown::To(stream) = shown {
            finding_output::print(&report, settings, stream)?;
        }
        Ok(finding_output::exit_code(&report))
    }
}

/// The program that was recorded in `trace`, and what could not be told of it.
pub fn subject(trace: &TraceFile, settings: &Settings, gaps: Vec<String>) -> Subject {
    let command = trace.header().command.iter();
    Subject {
        command: command
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect(),
        directory: Some(settings.directory.to_string_lossy().into_owned()),
        gaps,
    }
}

/// What other analyses than crash testing have found, suppressed or not: that is decided anew.
pub fn findings_of_others(directory: &OutputDirectory) -> Result<Vec<Finding>, Failure> {
    let found = read_findings(&directory.file(FINDINGS))?.into_iter();
    let suppressed = read_suppressed(&directory.file(SUPPRESSED))?.into_iter();
    let all = found.chain(suppressed.map(|suppressed| suppressed.finding));
    Ok(all
        .filter(|finding| !rules::is_of_crash_testing(&finding.rule))
        .collect())
}

/// The findings in a file of results.
pub fn read_findings(path: &Path) -> Result<Vec<Finding>, Failure> {
    parse_json_lines(&read(path)?).map_err(|source| Failure::Findings {
        path: path.to_owned(),
        source,
    })
}

/// The findings that were suppressed; none if there is no file of them.
pub fn read_suppressed(path: &Path) -> Result<Vec<Suppressed>, Failure> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    parse_suppressed_lines(&read(path)?).map_err(|source| Failure::Findings {
        path: path.to_owned(),
        source,
    })
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|source| Failure::Results {
        path: path.to_owned(),
        source,
    })
}
