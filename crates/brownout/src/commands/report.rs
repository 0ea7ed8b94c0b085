//! `brownout report`: shows the findings of an earlier check again, or writes them in other formats.

use brownout_report::{Format, Html, Junit, RunEnd, Sarif, Sources};

use crate::arguments::ReportArgs;
use crate::console::Console;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::{self, Detail, Stream};
use crate::output_directory::write_report;
use crate::stored_results::read_report;

pub fn run(arguments: &ReportArgs, console: &Console) -> Result<ExitCode, Failure> {
    let (directory, report) = read_report(&arguments.directory)?;
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
            all: arguments.all,
        };
        finding_output::print_human(&report, detail, Some(&directory), Stream::Output)?;
    }
    let conclusion = &report.conclusion;
    for sentence in conclusion.left_out.sentences() {
        console.remark(sentence);
    }
    for gap in &report.subject.gaps {
        console.warn(gap);
    }
    for reason in conclusion.reasons.texts() {
        match conclusion.end {
            RunEnd::Error => console.error(reason),
            _ => console.warn(reason),
        }
    }
    Ok(match conclusion.exit_code.and_then(ExitCode::from_number) {
        Some(code) => code,
        None if conclusion.is_conclusive() => finding_output::exit_code(&report),
        // The run was killed.
        None => ExitCode::Usage,
    })
}
