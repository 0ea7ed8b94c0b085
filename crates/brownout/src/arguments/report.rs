//! `brownout report`.

use std::path::PathBuf;

use clap::Args;

/// Show the findings of an earlier check again, or write them in other formats
///
/// Exits with the exit code of the check, and with 2 if the check was killed before it ended.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout report brownout.out
  brownout report brownout.out --suppressed
  brownout report brownout.out --html report.html --sarif report.sarif --junit junit.xml")]
pub struct ReportArgs {
    /// Results directory of `brownout check` or `brownout crash`
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Write an HTML page to FILE
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write SARIF 2.1.0 to FILE
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,

    /// Write JUnit XML to FILE
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,

    /// Show every finding in full, not only bugs; by default, other findings take one line per rule and location
    #[arg(long, alias = "warnings")]
    pub verbose: bool,

    /// Show all findings; by default, at most 20
    #[arg(long)]
    pub all: bool,

    /// Also show suppressed findings, with the reasons
    #[arg(long)]
    pub suppressed: bool,
}
