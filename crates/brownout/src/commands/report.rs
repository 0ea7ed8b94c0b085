//! `brownout report`: shows the findings of an earlier check again, or writes them in other formats.

use brownout_report::{Format, Html, Junit, Report, Sarif, Sources};

use crate::arguments::ReportArgs;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::{self, Detail, Stream};
use crate::output_directory::{FINDINGS, OutputDirectory, SUPPRESSED, write_report};
use crate::results::{read_findings, read_suppressed};
use crate::rules;

pub fn run(arguments: &ReportArgs) -> Result<ExitCode, Failure> {
    let (directory, subject, in_force) = OutputDirectory::open(&arguments.directory)?;
    let findings = read_findings(&directory.file(FINDINGS))?;
    let suppressed = read_suppressed(&directory.file(SUPPRESSED))?;
    let mut report =
        Report::new(subject, in_force.rules(rules::all()), findings).with_suppressed(suppressed);
    report.fail_on = in_force.fail_on;
    let html = Html {
        sources: Sources::on_disk(),
    };
    let formats: [(_, &dyn Format); 3] = [
        (&arguments.html, &html),
        (&arguments.sarif, &Sarif),
        (&arguments.junit, &Junit),
    ];
    let mut written = false;
    for (path, format) in formats {
        if let Some(path) = path {
            write_report(path, format, &report)?;
            written = true;
        }
    }
    if !written {
        let detail = Detail {
            verbose: arguments.verbose,
            suppressed: arguments.suppressed,
        };
        finding_output::print_human(&report, detail, Stream::Output)?;
    }
    // The check already exited with 1 if there were bugs; showing them again is a success.
    Ok(ExitCode::Success)
}
