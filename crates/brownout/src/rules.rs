//! All rules of all analyses.

use brownout_report::RuleInfo;

use crate::settings::Settings;

/// All rules of brownout, in the order in which `brownout explain` lists them.
pub fn all() -> Vec<RuleInfo> {
    let lint = brownout_lint::RULES.iter();
    let crash = brownout_crash::rules::RULES.iter();
    lint.chain(crash).map(|&&rule| rule).collect()
}

/// Whether findings of this rule come from crash testing.
pub fn is_of_crash_testing(id: &str) -> bool {
    let mut rules = brownout_crash::rules::RULES.iter();
    rules.any(|rule| rule.id == id)
}

/// The rules of brownout and the oracles that the configuration declares.
pub fn in_force(settings: &Settings) -> Vec<RuleInfo> {
    let oracles = settings.oracles.iter().map(|oracle| *oracle.rule());
    all().into_iter().chain(oracles).collect()
}
