//! `brownout report`: the findings of an earlier check, again or in other forms.

use brownout_report::{Format, Html, Junit, Report, Sarif, Sources};

use crate::arguments::ReportArgs;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::{self, Detail, Stream};
use crate::output_directory::{FINDINGS, OutputDirectory, SUPPRESSED, write_report};
use crate::results::{read_findings, read_suppressed};
use crate::rules;

pub fn run(arguments: &ReportArgs) -> Result<ExitCode, Failure> {
    let (directory, subject) = OutputDirectory::open(&arguments.directory)?;
    let findings = read_findings(&directory.file(FINDINGS))?;
    let suppressed = read_suppressed(&directory.file(SUPPRESSED))?;
    let report = Report::new(subject, rules::all(), findings).with_suppressed(suppressed);
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
        let detail = Detail {
            warnings: arguments.warnings,
            suppressed: arguments.suppressed,
        };
        finding_output::print_for_person(&report, detail, Stream::Output)?;
    }
    // Whether there are bugs was told by the check; to show them again is no failure.
    Ok(ExitCode::Success)
}
