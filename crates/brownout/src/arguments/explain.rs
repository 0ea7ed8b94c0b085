//! `brownout explain`.

use clap::Args;

/// Say what a rule finds, why that is bad, and how to mend it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brownout explain
  brownout explain missing-flush")]
pub struct ExplainArgs {
    /// The rule; without it all rules are listed
    pub rule: Option<String>,
}
