//! Results that a directory holds: reads them, and marks those of a run that failed.

use std::fs;
use std::path::Path;

use brownout_report::{
    Conclusion, Finding, Reason, ReasonKind, Reasons, Report, Suppressed, parse_json_lines,
    parse_suppressed_lines,
};

use crate::earlier_reasons;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output;
use crate::output_directory::{FINDINGS, OutputDirectory, ResultsOf, SUPPRESSED};
use crate::rules;

/// The results in a directory.
pub fn read_report(path: &Path) -> Result<(OutputDirectory, Report), Failure> {
    let (directory, subject, in_force) = OutputDirectory::open(path)?;
    let findings = read_findings(&directory)?;
    let suppressed = read_suppressed(&directory)?;
    let rules = in_force.rules(rules::all());
    let run = directory.run_file()?;
    let mut report = Report::new(subject, rules, findings)
        .with_suppressed(suppressed)
        .with_known(run.known);
    report.fail_on = in_force.fail_on;
    report.conclusion = run.conclusion;
    if run.known > 0 {
        report.keep_known(directory.baseline()?.unwrap_or_default());
    }
    Ok((directory, report))
}

/// Makes the results in the directory say that the run failed. Does nothing if there are no results yet.
pub fn record_failure(directory: &Path, of: ResultsOf, code: ExitCode, mut reason: String) {
    let Ok((directory, mut report)) = read_report(directory) else {
        return;
    };
    let mut reasons = Vec::new();
    let mut kind = ReasonKind::Other;
    if of == ResultsOf::AnEarlierRun {
        reason.push_str("; the findings here are those of an earlier run");
        kind = ReasonKind::LaterCommandFailed;
        // They still hold for the findings.
        reasons = earlier_reasons::of_results(&report.conclusion);
    }
    reasons.insert(0, Reason::new(kind, reason));
    report.conclusion = Conclusion {
        end: code.into(),
        exit_code: Some(code as u8),
        reasons: Reasons(reasons),
        ..report.conclusion
    };
    // The process is failing already, and the earlier results do not claim that it passed.
    let _ = finding_output::write_all(&report, &directory);
}

/// The findings in a directory.
pub fn read_findings(directory: &OutputDirectory) -> Result<Vec<Finding>, Failure> {
    let path = directory.file(FINDINGS);
    let findings =
        parse_json_lines(&read(&path)?, &rules::all()).map_err(|source| Failure::Findings {
            path: path.clone(),
            source,
        })?;
    directory
        .run_file()?
        .check_findings(&path, findings.len())?;
    Ok(findings)
}

/// The suppressed findings in a directory; none if the file does not exist.
pub fn read_suppressed(directory: &OutputDirectory) -> Result<Vec<Suppressed>, Failure> {
    let path = directory.file(SUPPRESSED);
    let suppressed = if path.exists() {
        let parsed = parse_suppressed_lines(&read(&path)?, &rules::all());
        parsed.map_err(|source| Failure::Findings {
            path: path.clone(),
            source,
        })?
    } else {
        Vec::new()
    };
    directory
        .run_file()?
        .check_suppressed(&path, suppressed.len())?;
    Ok(suppressed)
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|source| Failure::ResultsFile {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use brownout_report::{RunEnd, Subject};

    use super::*;
    use crate::decisions::Decisions;
    use crate::results::Results;
    use crate::settings::Settings;

    #[test]
    fn a_fault_of_brownout_is_in_the_results() {
        let root = tempfile::tempdir().unwrap();
        let here = Path::new("/");
        let settings = Settings::defaults(here);
        let directory = OutputDirectory::claim(&root.path().join("out")).unwrap();
        let decisions = Decisions::read(&settings).unwrap();
        let results = Results::new(Subject::default(), Vec::new());
        results
            .write_unfinished(&decisions, &settings, &directory, "linting")
            .unwrap();
        let reason = "internal error: no reason".to_owned();
        let path = root.path().join("out");
        record_failure(&path, ResultsOf::ThisRun, ExitCode::Internal, reason);
        let conclusion = directory.run_file().unwrap().conclusion;
        assert_eq!(conclusion.end, RunEnd::InternalError);
        assert_eq!(conclusion.exit_code, Some(70));
        let junit = fs::read_to_string(directory.file("junit.xml")).unwrap();
        assert!(junit.contains("<error") && junit.contains("no reason"));
    }
}
