//! All rules of all analyses, and which of them are on.

use std::collections::BTreeMap;

use brownout_race::PERSISTENCY_RACE;
use brownout_report::{Finding, RuleInfo, RulePolicy, Severity};
use serde::Deserialize;

use crate::settings::Settings;

/// All rules of brownout, in the order in which `brownout explain` lists them.
pub fn all() -> Vec<RuleInfo> {
    each().copied().collect()
}

fn each() -> impl Iterator<Item = &'static RuleInfo> {
    let lint = brownout_lint::RULES.iter().copied();
    let crash = brownout_crash::rules::RULES.into_iter();
    let fuzz = brownout_fuzz::rules::RULES.into_iter();
    lint.chain([&PERSISTENCY_RACE]).chain(crash).chain(fuzz)
}

/// How findings of a rule are treated; those of oracles stand for themselves.
pub fn policy(id: &str) -> RulePolicy {
    let known = each().find(|rule| rule.id == id);
    known.map_or(RulePolicy::NONE, |rule| rule.policy)
}

/// Whether findings of this rule come from crash testing.
pub fn is_crash_rule(id: &str) -> bool {
    let mut rules = brownout_crash::rules::RULES.iter();
    rules.any(|rule| rule.id == id)
}

/// Whether findings of this rule come from the search for races.
pub fn is_race_rule(id: &str) -> bool {
    id == PERSISTENCY_RACE.id
}

/// Whether findings of this rule are failures of the target on generated inputs.
pub fn is_target_rule(id: &str) -> bool {
    let mut rules = brownout_fuzz::rules::RULES.iter();
    rules.any(|rule| rule.id == id)
}

/// The rules that are on, with the severities that apply: those of brownout and the oracles that the configuration
/// declares.
pub fn in_force(settings: &Settings) -> Vec<RuleInfo> {
    let oracles = settings.oracles.iter().map(|oracle| *oracle.rule());
    all()
        .into_iter()
        .chain(oracles)
        .filter_map(|rule| settings.levels.applied_to(rule))
        .collect()
}

/// The rule of brownout whose name is most similar to the given one.
pub fn nearest(given: &str) -> Option<&'static str> {
    nearest_of(given, &all())
}

/// The one of these rules whose name is most similar to the given one.
pub fn nearest_of(given: &str, rules: &[RuleInfo]) -> Option<&'static str> {
    let likeness = |rule: &RuleInfo| {
        let words = given.split(['-', '_', ' ']).filter(|word| word.len() > 1);
        let shared = words.filter(|word| rule.id.contains(word)).count();
        let start = rule.id.bytes().zip(given.bytes());
        (shared, start.take_while(|(a, b)| a == b).count())
    };
    let alike = rules.iter().rev().filter(|rule| {
        let (words, letters) = likeness(rule);
        words > 0 || letters > 2
    });
    alike.max_by_key(|rule| likeness(rule)).map(|rule| rule.id)
}

/// The level of a rule in the `[rules]` table of `brownout.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleLevel {
    Bug,
    /// A bug, unless crash testing has tried it and recovery has passed on every image; then a warning.
    UnlessPassed,
    Performance,
    Warning,
    Off,
}

impl RuleLevel {
    /// The severity of the rule's findings; none if the rule is off.
    fn severity(self) -> Option<Severity> {
        match self {
            Self::Bug | Self::UnlessPassed => Some(Severity::Bug),
            Self::Performance => Some(Severity::Performance),
            Self::Warning => Some(Severity::Warning),
            Self::Off => None,
        }
    }
}

/// Which rules are on, and the severities of their findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleLevels {
    /// Whether pedantic rules are on.
    pub pedantic: bool,
    /// Levels by rule id.
    pub levels: BTreeMap<String, RuleLevel>,
}

impl RuleLevels {
    /// The rule with the severity that applies; none if it is off.
    fn applied_to(&self, rule: RuleInfo) -> Option<RuleInfo> {
        let severity = match self.levels.get(rule.id) {
            Some(level) => level.severity()?,
            None if rule.pedantic && !self.pedantic => return None,
            None => rule.severity,
        };
        Some(RuleInfo { severity, ..rule })
    }

    /// Whether a rule is on.
    pub fn is_on(&self, rule: &RuleInfo) -> bool {
        self.applied_to(*rule).is_some()
    }

    /// Whether the user has turned a rule off; a pedantic rule that is not turned on is not meant.
    pub fn is_off(&self, rule: &str) -> bool {
        self.levels.get(rule) == Some(&RuleLevel::Off)
    }

    /// Gives findings whose severity depends on crash testing the one that they have in the end, if recovery checks what crashes change.
    pub fn settle(&self, findings: &mut [Finding]) {
        for finding in findings {
            if self.levels.get(&finding.rule) == Some(&RuleLevel::UnlessPassed) {
                finding.severity = match finding.confirmed {
                    Some(false) => Severity::Warning,
                    Some(true) | None => Severity::Bug,
                };
            }
        }
    }

    /// The findings of rules that are on, with the severities that apply.
    pub fn apply(&self, findings: Vec<Finding>) -> Vec<Finding> {
        let pedantic: Vec<&str> = all()
            .into_iter()
            .filter_map(|rule| rule.pedantic.then_some(rule.id))
            .collect();
        findings
            .into_iter()
            .filter_map(|mut finding| {
                match self.levels.get(&finding.rule) {
                    Some(level) => finding.severity = level.severity()?,
                    None if !self.pedantic && pedantic.contains(&finding.rule.as_str()) => {
                        return None;
                    }
                    None => {}
                }
                Some(finding)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brownout_crash::rules::UNPERSISTED_READ;
    use brownout_report::{Evidence, Mistake};

    /// The rules with such a policy, by name.
    fn with(is_such: fn(RulePolicy) -> bool) -> Vec<&'static str> {
        let mut ids: Vec<&str> = each()
            .filter(|rule| is_such(rule.policy))
            .map(|rule| rule.id)
            .collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn policies_say_what_is_tried_and_repaired() {
        let tried = [
            "delayed-persist",
            "dirty-overwrite",
            "fence-orders-many",
            "missing-fence",
            "missing-flush",
            "transient-data",
            "unpersisted-target",
        ];
        assert_eq!(with(|policy| policy.tried.is_some()), tried);
        let repaired = [
            "accidental-fence",
            "delayed-persist",
            "missing-fence",
            "missing-flush",
            "persistency-race",
            "tx-unlogged-store",
            "unpersisted-target",
        ];
        assert_eq!(with(|policy| policy.repair.is_automatic()), repaired);
        assert_eq!(
            with(|policy| policy.repair.is_on_request()),
            ["transient-data"]
        );
        assert_eq!(policy("an-oracle"), RulePolicy::NONE);
    }

    #[test]
    fn of_two_rules_about_a_store_one_is_clearer() {
        let mut known = std::collections::BTreeSet::new();
        for rule in each() {
            if let Mistake::UnpersistedStore { clarity } | Mistake::UnpersistedTarget { clarity } =
                rule.policy.mistake
            {
                assert!(known.insert(clarity), "{}", rule.id);
            }
        }
        assert_eq!(known.len(), 6);
    }

    fn found(levels: &RuleLevels) -> Vec<(String, Severity)> {
        let findings = all()
            .iter()
            .map(|rule| Finding::new(rule, "", Vec::new(), Evidence::default()))
            .collect();
        let found = levels.apply(findings);
        found.into_iter().map(|f| (f.rule, f.severity)).collect()
    }

    fn listed(levels: &RuleLevels) -> Vec<(String, Severity)> {
        let rules = all().into_iter().filter_map(|rule| levels.applied_to(rule));
        rules
            .map(|rule| (rule.id.to_owned(), rule.severity))
            .collect()
    }

    #[test]
    fn pedantic_rules_are_off_unless_requested() {
        let default = RuleLevels::default();
        let pedantic = RuleLevels {
            pedantic: true,
            ..RuleLevels::default()
        };
        let has = |levels: &RuleLevels, id: &str| found(levels).iter().any(|(rule, _)| rule == id);
        for id in ["dirty-overwrite", "flush-covers-many", "unpersisted-read"] {
            assert!(!has(&default, id), "{id}");
            assert!(has(&pedantic, id), "{id}");
        }
        assert!(has(&default, "missing-flush"));
        assert!(pedantic.is_on(&UNPERSISTED_READ) && !default.is_on(&UNPERSISTED_READ));
        assert_eq!(found(&default), listed(&default));
        assert_eq!(found(&pedantic), listed(&pedantic));
    }

    #[test]
    fn only_what_recovery_has_passed_is_no_bug() {
        let level = ("missing-flush".to_owned(), RuleLevel::UnlessPassed);
        let levels = RuleLevels {
            pedantic: false,
            levels: BTreeMap::from([level]),
        };
        let severity = |rule: &str, confirmed| {
            let rule = *all().iter().find(|known| known.id == rule).unwrap();
            let mut finding = Finding::new(&rule, "", Vec::new(), Evidence::default());
            finding.confirmed = confirmed;
            let mut found = levels.apply(vec![finding]);
            levels.settle(&mut found);
            found[0].severity
        };
        assert_eq!(severity("missing-flush", None), Severity::Bug);
        assert_eq!(severity("missing-flush", Some(true)), Severity::Bug);
        assert_eq!(severity("missing-flush", Some(false)), Severity::Warning);
        assert_eq!(severity("missing-fence", Some(false)), Severity::Bug);
    }

    #[test]
    fn levels_change_severities_and_turn_rules_on_and_off() {
        let levels = RuleLevels {
            pedantic: false,
            levels: BTreeMap::from([
                ("missing-flush".to_owned(), RuleLevel::Off),
                ("redundant-fence".to_owned(), RuleLevel::Bug),
                ("dirty-overwrite".to_owned(), RuleLevel::Performance),
            ]),
        };
        let found = found(&levels);
        assert_eq!(found, listed(&levels));
        let severity = |id: &str| found.iter().find(|(rule, _)| rule == id).map(|(_, s)| *s);
        assert_eq!(severity("missing-flush"), None);
        assert_eq!(severity("redundant-fence"), Some(Severity::Bug));
        assert_eq!(severity("dirty-overwrite"), Some(Severity::Performance));
        assert_eq!(severity("missing-fence"), Some(Severity::Bug));
    }
}
