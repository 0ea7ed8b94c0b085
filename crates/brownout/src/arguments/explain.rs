//! `brownout explain`.

use clap::Args;

/// Explain what a rule detects, why it matters and how to fix its findings
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout explain
  brownout explain missing-flush")]
pub struct ExplainArgs {
    /// The rule; without it all rules are listed
    pub rule: Option<String>,
}
