//! `brownout explain`.

use std::path::PathBuf;

use clap::Args;

/// Explain what a rule, or an oracle of brownout.toml, detects, why it matters and how to fix its findings
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout explain
  brownout explain missing-flush")]
pub struct ExplainArgs {
    /// The rule or oracle [default: list all rules]
    pub rule: Option<String>,

    /// Take oracles from FILE instead of the nearest brownout.toml in the working directory or above
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}
