//! `brownout check`.

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::path::PathBuf;

use brownout_trace::ProcessEnd;
use clap::Args;

use super::target_end::target_end;
use super::{CrashTestArgs, FindingArgs, RecordingArgs};

/// Run a program once and report its crash-consistency bugs
///
/// Results are written to brownout.out/: findings.jsonl, report.html, report.sarif, junit.xml and
/// the trace. The program's output is passed through. Findings are printed to standard error in human
/// format, and to standard output in other formats, so check can be put in front of any command.
///
/// With --recover, crashes are tested too: see `brownout crash --help`.
///
/// Exits with 1 if a finding reaches --fail-on (by default: a bug). Exits with 3 if no persistent memory was seen, or if not
/// everything could be tested. Exits with 4, regardless of findings, if the program failed on its own, or if recovery failed
/// without a crash. All results state the outcome; run.json has it in `verdict`, `exit_code` and `reasons`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  brownout check -- ./kvstore /mnt/pmem/pool insert 1 2 3
  brownout check --recover './kvstore /mnt/pmem/pool check' -- ./kvstore /mnt/pmem/pool insert 1 2 3
  brownout check --out results --baseline known.json -- ./kvstore pool insert 1
  brownout check --schedules 8 -- ./kvstore /mnt/pmem/pool threads 4
  brownout check --preset ci -- make test
  meson test --wrap 'brownout check --out brownout-{pid} --'")]
pub struct CheckArgs {
    /// Treat files that match GLOB as persistent memory
    ///
    /// `*` and `?` do not match a slash; `**` does. A GLOB without a slash is matched against file
    /// names, any other against absolute paths. Can be given more than once. By default, DAX and
    /// MAP_SYNC mappings are persistent memory, and so are shared writable mappings of files that the
    /// program flushes or syncs.
    #[arg(long = "pm", value_name = "GLOB")]
    pub patterns: Vec<OsString>,

    /// Where to write the results [default: brownout.out]
    ///
    /// `{pid}` is replaced by the process ID of brownout. Earlier results in DIR are replaced; a
    /// directory that holds anything else is refused.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Continue an interrupted check with the same options, program and --out
    ///
    /// The program is not run again if DIR contains its whole trace, and crashes that were tried are not tried again.
    #[arg(long)]
    pub resume: bool,

    /// Force each race that is found: run the program again, in a sandbox, while the storing thread is held before its persist
    ///
    /// With --recover, recovery runs on the image of a crash at the instant at which another thread has acted on what is not durable
    /// yet. `brownout race --help` says more, and does the same with results of an earlier check.
    #[arg(long)]
    pub confirm: bool,

    /// Also count this exit status, or death by this signal, as success of the program: 3, SIGTERM; can be given more than once
    ///
    /// Exit status 0 always counts as success. Use this option for servers that are stopped with a signal.
    #[arg(long, value_name = "STATUS|SIGNAL", value_parser = target_end, value_delimiter = ',')]
    pub target_success: Vec<ProcessEnd>,

    /// Record the program under N schedules of its threads, and examine each recording
    ///
    /// The seeds are 1 to N; see --schedule. Findings are those of all schedules, each with the schedule that shows most about it, which
    /// `brownout check --schedule` repeats. The program runs on its own files each time. Between two runs, what it has changed in the
    /// files that it maps is restored, and files that it created are removed; if that is not possible, no further schedule is
    /// tried. Other files stay as the program leaves them. A standard input that is not a file is read by the first run only.
    /// The time limit of crash testing is divided among the schedules.
    #[arg(long, value_name = "N", conflicts_with_all = ["schedule", "resume", "coverage"])]
    pub schedules: Option<NonZeroU64>,

    #[command(flatten)]
    pub findings: FindingArgs,

    #[command(flatten)]
    pub crash: CrashTestArgs,

    #[command(flatten)]
    pub recording: RecordingArgs,
}
