//! `brownout report`: the findings of an earlier check, again or in other forms.

use brownout_report::{Format, Html, Junit, Report, Sarif, Sources};

use crate::arguments::ReportArgs;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output_directory::{FINDINGS, OutputDirectory, write_report};
use crate::results::read_findings;
use crate::rules;
use crate::verdict::{self, Stream};

pub fn run(arguments: &ReportArgs) -> Result<ExitCode, Failure> {
    let (directory, subject) = OutputDirectory::open(&arguments.directory)?;
    let findings = read_findings(&directory.file(FINDINGS))?;
    let report = Report::new(subject, rules::all(), findings);
    let html = Html {
        sources: Sources::on_disk(),
    };
    let forms: [(_, &dyn Format); 3] = [
        (&arguments.html, &html),
        (&arguments.sarif, &Sarif),
        (&arguments.junit, &Junit),
    ];
    let mut written = false;
    for (path, format) in forms {
        if let Some(path) = path {
            write_report(path, format, &report)?;
            written = true;
        }
    }
    if !written {
        verdict::print_for_person(&report, arguments.warnings, Stream::Output)?;
    }
    // Whether there are bugs was told by the check; to show them again is no failure.
    Ok(ExitCode::Success)
}
