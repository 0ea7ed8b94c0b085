//! Collects the findings of all analyses, then writes and prints them and derives the exit code.

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

/// Where results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    To(Stream),
    ToNobody,
}

/// The findings of the analyses so far.
pub struct Results {
    pub subject: Subject,
    pub findings: Vec<Finding>,
}

impl Results {
    /// No findings yet, for the target recorded in `trace`.
    pub fn about(trace: &TraceFile, settings: &Settings) -> Self {
        Self {
            subject: subject(
                trace,
                settings,
                trace.incomplete_reason().into_iter().collect(),
            ),
            findings: Vec::new(),
        }
    }

    /// Adds the findings that other analyses than crash testing reported for the same trace.
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

    /// Adds the findings of an analysis and what it could not examine.
    pub fn add(&mut self, findings: Vec<Finding>, gaps: Vec<String>, console: &Console) {
        self.findings.extend(findings);
        for gap in gaps {
            if !self.subject.gaps.contains(&gap) {
                console.warn(&gap);
                self.subject.gaps.push(gap);
            }
        }
    }

    /// Writes the report to the directory, prints it and returns the exit code.
    pub fn conclude(
        self,
        decisions: Decisions,
        settings: &Settings,
        directory: &OutputDirectory,
        shown: Shown,
        console: &Console,
    ) -> Result<ExitCode, Failure> {
        let mut report = Report::new(self.subject, rules::in_force(settings), self.findings);
        report.fail_on = settings.fail_on;
        decisions.apply(&mut report, settings, console)?;
        finding_output::write_all(&report, directory)?;
        if let Shown::To(stream) = shown {
            finding_output::print(&report, settings, stream)?;
        }
        Ok(finding_output::exit_code(&report))
    }
}

/// The target recorded in `trace`, and what could not be examined.
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

/// The findings of other analyses than crash testing, including suppressed ones: suppressions are applied again.
pub fn findings_of_others(directory: &OutputDirectory) -> Result<Vec<Finding>, Failure> {
    let found = read_findings(&directory.file(FINDINGS))?.into_iter();
    let suppressed = read_suppressed(&directory.file(SUPPRESSED))?.into_iter();
    let all = found.chain(suppressed.map(|suppressed| suppressed.finding));
    Ok(all
        .filter(|finding| !rules::is_of_crash_testing(&finding.rule))
        .collect())
}

/// The findings in a results file.
pub fn read_findings(path: &Path) -> Result<Vec<Finding>, Failure> {
    parse_json_lines(&read(path)?).map_err(|source| Failure::Findings {
        path: path.to_owned(),
        source,
    })
}

/// The suppressed findings; none if the file does not exist.
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
