//! `brownout report`.

use std::path::PathBuf;

use clap::Args;

/// Show the findings of an earlier check again, or write them in other forms
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout report brownout.out
  brownout report brownout.out --html report.html --sarif report.sarif --junit junit.xml")]
pub struct ReportArgs {
    /// Where `brownout check` wrote its results
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Write a page for the browser to FILE
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write SARIF 2.1.0 to FILE
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,

    /// Write JUnit's XML to FILE
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,

    /// Show warnings in full, not as one line for each rule and place
    #[arg(long)]
    pub warnings: bool,

    /// Show suppressed findings too, with the reasons
    #[arg(long)]
    pub suppressed: bool,
}
