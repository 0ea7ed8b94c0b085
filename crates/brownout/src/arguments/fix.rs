//! `brownout fix`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{ConfigArgs, Format, duration};

/// Repair findings: print a patch of the sources that adds the missing flushes and fences
///
/// Prints what is repaired and why the rest is not, and a unified diff that `git apply` takes. Each repair is tried in the recorded trace
/// first: with the added flushes and fences, the finding must be gone. Then the program is run again in a private view of the file system,
/// with these flushes and fences executed, and checked. Neither shows that the edited source computes the right addresses; with --build,
/// the program is built from the edited sources instead, recorded and checked again, and only what is gone then is called proven. The
/// sources are changed only with --apply.
///
/// Exits with 0 if all findings that are named, or all that can be repaired if none is named, are repaired and the running or the rebuilt
/// program shows that, and with 1 otherwise.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout fix brownout.out
  brownout fix brownout.out 04bb4109 --patch flush.diff
  brownout fix brownout.out --build make
  brownout fix brownout.out --build 'make && make check' --apply
  brownout fix brownout.out transient-data")]
pub struct FixArgs {
    /// The results directory of `brownout check`
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Repair only these: ids, beginnings of ids, or rules
    #[arg(value_name = "FINDING")]
    pub findings: Vec<String>,

    /// Change the sources
    ///
    /// All files or none are changed. With --build, only if the patch is proven. Files in a git repository that have changes or are not
    /// tracked are refused unless --force is given.
    #[arg(long)]
    pub apply: bool,

    /// Also suggest removing flushes, fences and log entries that do nothing
    ///
    /// What one run does not need, another run may. With --build, removals that the rebuilt program proves are part of the patch.
    #[arg(long)]
    pub performance: bool,

    /// Write the patch to FILE
    #[arg(long, value_name = "FILE")]
    pub patch: Option<PathBuf>,

    /// Build the program from the edited sources with CMD, record it and check it again
    ///
    /// Nothing that CMD, the program or brownout writes then is kept: they see the whole file system, but write to a private layer.
    /// The program starts with the persistent files as they were when it was recorded.
    #[arg(long, value_name = "CMD")]
    pub build: Option<String>,

    /// Run CMD in PATH [default: the directory in which the program was recorded]
    #[arg(long, value_name = "PATH", requires = "build")]
    pub build_dir: Option<PathBuf>,

    /// The time that building, recording and checking may take: 90s, 10m
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30m", requires = "build")]
    pub build_time: Duration,

    /// With --apply, also change files that have changes in git or are not tracked
    #[arg(long, requires = "apply")]
    pub force: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    #[command(flatten)]
    pub config: ConfigArgs,
}
