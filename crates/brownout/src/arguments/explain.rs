//! `brownout explain`.

use clap::Args;

/// Explain what a rule detects, why it matters and how to fix its findings
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout explain
  brownout explain missing-flush")]
pub struct ExplainArgs {
    /// The rule [default: list all rules]
    pub rule: Option<String>,
}
