//! The command-line arguments and their help texts.

mod campaign;
mod check;
mod crash;
mod demo;
mod diff;
mod dump;
mod explain;
mod failure_points;
mod findings;
mod fix;
mod fuzz;
mod image;
mod lint;
mod merge;
mod race;
mod record;
mod recording;
mod repetition;
mod replay;
mod report;
mod stat;
mod symex;
pub mod target_end;
mod values;

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use campaign::CampaignArgs;
pub use check::CheckArgs;
pub use crash::{CrashArgs, CrashTestArgs, TearingArg, strategy};
pub use demo::DemoArgs;
pub use diff::DiffArgs;
pub use dump::DumpArgs;
pub use explain::ExplainArgs;
pub use failure_points::{FailurePointArgs, GranularityArg};
pub use findings::{ConfigArgs, FindingArgs, FindingFormat, fail_on};
pub use fix::FixArgs;
pub use fuzz::{FuzzArgs, SendInputArgs};
pub use image::{ImageArgs, Moment};
pub use lint::LintArgs;
pub use merge::MergeArgs;
pub use race::RaceArgs;
pub use record::RecordArgs;
pub use recording::{CoverageFormat, OnFull, RecordingArgs};
pub use repetition::{crash_options, sign};
pub use replay::ReplayArgs;
pub use report::ReportArgs;
pub use stat::StatArgs;
pub use symex::SymexArgs;
pub use values::{duration, readiness};

use crate::exit_code::ExitCode;

const EXAMPLES: &str = "Examples:
  brownout demo
  brownout check -- ./kvstore /mnt/pmem/pool insert 1 2 3
  brownout check --recover './kvstore /mnt/pmem/pool check' -- ./kvstore /mnt/pmem/pool insert 1 2 3
  brownout explain missing-flush
";

/// The text at the end of `brownout --help`.
fn after_help() -> String {
    format!("{EXAMPLES}\n{}", ExitCode::table())
}

/// Finds crash-consistency bugs in programs that keep their data in persistent memory.
///
/// brownout runs the unmodified program once and records its accesses to persistent memory in a trace. All
/// analyses work on the trace.
#[derive(Debug, Parser)]
#[command(version, after_help = after_help(), max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,

    /// Print only results, warnings and errors, no progress or notes
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Check(CheckArgs),
    Record(RecordArgs),
    Lint(LintArgs),
    Race(RaceArgs),
    Crash(CrashArgs),
    Replay(ReplayArgs),
    Fuzz(FuzzArgs),
    Symex(SymexArgs),
    Fix(FixArgs),
    Merge(MergeArgs),
    Report(ReportArgs),
    Diff(DiffArgs),
    Explain(ExplainArgs),
    Stat(StatArgs),
    Dump(DumpArgs),
    Image(ImageArgs),
    Demo(DemoArgs),
    /// Runs recoveries in a sandbox; started by brownout itself
    #[command(name = SERVE_SANDBOX, hide = true)]
    ServeSandbox {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Runs a server and its client; started by brownout itself
    #[command(name = SEND_INPUT, hide = true)]
    SendInput(SendInputArgs),
    /// Prints which source lines a recorded program has executed; started by brownout itself
    #[command(name = EXECUTED_LINES, hide = true)]
    ExecutedLines {
        trace: std::path::PathBuf,
    },
}

/// What brownout calls itself with to run recoveries.
pub const SERVE_SANDBOX: &str = "serve-sandbox";
/// What brownout calls itself with to run a server and its client.
pub const SEND_INPUT: &str = "send-input";
/// What brownout calls itself with to learn which source lines a program has executed.
pub const EXECUTED_LINES: &str = "executed-lines";

/// The output format of `stat`, `dump` and `diff`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people
    #[default]
    Human,
    /// JSON for programs
    Json,
}

/// Which mapped files count as persistent memory, for commands that read a trace.
#[derive(Debug, Args)]
pub struct SelectionArgs {
    /// Treat files that match GLOB as persistent memory, overriding the choice made when recording
    ///
    /// `*` and `?` do not match a slash; `**` does. A GLOB without a slash is matched against file
    /// names, any other against absolute paths. Can be given more than once.
    #[arg(long = "pm", value_name = "GLOB")]
    pub patterns: Vec<OsString>,
}
