//! All rules of all analyses.

use brownout_report::RuleInfo;

/// In the order in which they are listed.
pub fn all() -> Vec<RuleInfo> {
    brownout_lint::RULES.iter().map(|&&rule| rule).collect()
}
