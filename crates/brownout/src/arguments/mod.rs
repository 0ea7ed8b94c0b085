//! The command line: what may be asked, and the help for it.

mod check;
mod crash;
mod demo;
mod dump;
mod explain;
mod findings;
mod image;
mod lint;
mod merge;
mod record;
mod recording;
mod replay;
mod report;
mod stat;

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use check::CheckArgs;
pub use crash::{CrashArgs, CrashTestArgs, FailurePointArgs, GranularityArg, duration, readiness};
pub use demo::DemoArgs;
pub use dump::DumpArgs;
pub use explain::ExplainArgs;
pub use findings::{ConfigArgs, FindingArgs, FindingFormat};
pub use image::{ImageArgs, Moment};
pub use lint::LintArgs;
pub use merge::MergeArgs;
pub use record::RecordArgs;
pub use recording::{OnFull, RecordingArgs};
pub use replay::ReplayArgs;
pub use report::ReportArgs;
pub use stat::StatArgs;

use crate::exit_code::ExitCode;

/// Finds crash-consistency bugs in programs that keep their data in persistent memory.
///
/// The program is run once, unmodified, and everything it does to persistent memory is recorded in a
/// trace; all other commands read the trace.
#[derive(Debug, Parser)]
#[command(version, after_help = ExitCode::table(), max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,

    /// Print neither progress nor remarks, only results, warnings and errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Check(CheckArgs),
    Record(RecordArgs),
    Lint(LintArgs),
    Crash(CrashArgs),
    Replay(ReplayArgs),
    Merge(MergeArgs),
    Report(ReportArgs),
    Explain(ExplainArgs),
    Stat(StatArgs),
    Dump(DumpArgs),
    Image(ImageArgs),
    Demo(DemoArgs),
    /// Keeps recoveries apart from everything else; started by brownout itself
    #[command(name = SERVE_SANDBOX, hide = true)]
    ServeSandbox,
}

/// What brownout calls itself with to run recoveries.
pub const SERVE_SANDBOX: &str = "serve-sandbox";

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for a person
    #[default]
    Human,
    /// JSON for a program
    Json,
}

/// Which of the mapped files are persistent memory, for commands that read a trace.
#[derive(Debug, Args)]
pub struct SelectionArgs {
    /// Take files that match GLOB as persistent memory, instead of what was chosen at recording
    ///
    /// `*` and `?` stop at a slash, `**` does not. A GLOB without a slash is matched against file
    /// names, any other against absolute paths. May be given several times.
    #[arg(long = "pm", value_name = "GLOB")]
    pub patterns: Vec<OsString>,
}
