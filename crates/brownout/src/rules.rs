//! All rules of all analyses.

use brownout_report::RuleInfo;

use crate::settings::Settings;

/// In the order in which they are listed.
pub fn all() -> Vec<RuleInfo> {
    brownout_lint::RULES.iter().map(|&&rule| rule).collect()
}

/// Those of brownout, and the oracles of the program.
pub fn in_force(settings: &Settings) -> Vec<RuleInfo> {
    let oracles = settings.oracles.iter().map(|oracle| *oracle.rule());
    all().into_iter().chain(oracles).collect()
}
