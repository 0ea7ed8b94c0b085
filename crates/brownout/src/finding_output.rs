//! Prints a report, writes it to the results directory, and derives the exit code from it.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};

use brownout_report::{
    BaselineFile, Conclusion, Format, Github, Html, Human, JsonLines, Junit, Report, Sarif,
    Sources, SuppressedLines, suppressions_for,
};

use terminal_size::{Width, terminal_size_of};

use crate::arguments::FindingFormat;
use crate::console;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output_directory::{self, OutputDirectory, write_report};
use crate::settings::{Settings, on_github};

/// Output width if there is no terminal.
const WIDTH: usize = 120;
/// Below this width source lines would not fit.
const MIN_WIDTH: usize = 60;

/// The stream for human-readable output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output contains only the results.
    Output,
    /// Standard output belongs to the target.
    Error,
}

/// Prints a report in the chosen format. Machine-readable formats always go to standard output.
pub fn print(
    report: &Report,
    settings: &Settings,
    results: Option<&OutputDirectory>,
    stream: Stream,
) -> Result<(), Failure> {
    let text = if settings.gen_suppressions {
        suppressions_for(report.findings(), &Sources::on_disk())
    } else {
        match settings.format {
            FindingFormat::Human => {
                let detail = Detail {
                    verbose: settings.verbose,
                    suppressed: false,
                    all: settings.all,
                };
                return print_human(report, detail, results, stream);
            }
            FindingFormat::Json => JsonLines.to_text(report),
            FindingFormat::Sarif => Sarif.to_text(report),
            FindingFormat::Junit => Junit.to_text(report),
            FindingFormat::Github => Github.to_text(report),
        }
    };
    let mut out = console::results();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(Failure::Output)
}

/// What to show besides the bugs.
#[derive(Clone, Copy, Debug)]
pub struct Detail {
    /// Show every finding in full.
    pub verbose: bool,
    /// Show suppressed findings.
    pub suppressed: bool,
    /// Show all findings, however many there are.
    pub all: bool,
}

pub fn print_human(
    report: &Report,
    detail: Detail,
    results: Option<&OutputDirectory>,
    stream: Stream,
) -> Result<(), Failure> {
    let mut text = human(detail, results, stream).to_text(report);
    if on_github() {
        text.push_str(&Github.to_text(report));
    }
    match stream {
        Stream::Output => io::stdout().write_all(text.as_bytes()),
        Stream::Error => io::stderr().write_all(text.as_bytes()),
    }
    .map_err(Failure::Output)
}

/// Text for people on a stream, with commands that name the results if these are kept.
pub fn human(detail: Detail, results: Option<&OutputDirectory>, stream: Stream) -> Human {
    let terminal = match stream {
        Stream::Output => io::stdout().is_terminal(),
        Stream::Error => io::stderr().is_terminal(),
    };
    Human {
        color: terminal && std::env::var_os("NO_COLOR").is_none(),
        width: width(stream),
        wrap: terminal,
        verbose: detail.verbose,
        suppressed: detail.suppressed,
        all: detail.all,
        results: results
            .filter(|directory| directory.is_kept())
            .map(OutputDirectory::shell_word),
        sources: Sources::on_disk(),
    }
}

fn width(stream: Stream) -> usize {
    let size = match stream {
        Stream::Output => terminal_size_of(io::stdout()),
        Stream::Error => terminal_size_of(io::stderr()),
    };
    size.map_or(WIDTH, |(Width(columns), _)| {
        usize::from(columns).max(MIN_WIDTH)
    })
}

/// Writes a report to the results directory in all formats. Until everything is written, `run.json` says that the run has not
/// finished.
pub fn write_all(report: &Report, directory: &OutputDirectory) -> Result<(), Failure> {
    let for_now = Conclusion::unfinished("writing the results");
    directory.write_run_file(report, &for_now)?;
    let html = Html {
        sources: Sources::on_disk(),
    };
    let baseline = BaselineFile {
        sources: Sources::on_disk(),
    };
    let formats: [(&str, &dyn Format); 5] = [
        (output_directory::FINDINGS, &JsonLines),
        (output_directory::BASELINE, &baseline),
        (output_directory::HTML, &html),
        (output_directory::SARIF, &Sarif),
        (output_directory::JUNIT, &Junit),
    ];
    for (name, format) in formats {
        write_report(&directory.file(name), format, report)?;
    }
    let suppressed = directory.file(output_directory::SUPPRESSED);
    if report.suppressed().is_empty() {
        // If it cannot be removed, the directory is not writable, which was reported above.
        let _ = fs::remove_file(suppressed);
    } else {
        write_report(&suppressed, &SuppressedLines, report)?;
    }
    directory.write_run_file(report, &report.conclusion)
}

/// 1 if a finding reaches `--fail-on`.
pub fn exit_code(report: &Report) -> ExitCode {
    if report.fails() {
        ExitCode::BugsFound
    } else {
        ExitCode::Success
    }
}
