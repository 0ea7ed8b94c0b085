//! The description of a rule: id, severity, category and texts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::RulePolicy;

/// A rule of an analysis. Ids are stable: suppressions and baselines name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleInfo {
    pub id: &'static str,
    pub severity: Severity,
    pub category: Category,
    /// Off unless the user asks for it: many of its findings are no mistakes.
    pub pedantic: bool,
    /// What the rest of brownout does with its findings.
    pub policy: RulePolicy,
    /// One line without a full stop.
    pub summary: &'static str,
    /// Markdown: what the rule detects, why that is bad, an example and how to fix it.
    pub explanation: &'static str,
}

impl RuleInfo {
    /// Whether it reports what recovery does after a crash.
    pub(crate) fn is_about_recovery(&self) -> bool {
        self.id.starts_with("recovery-")
    }
}

/// What a finding means for the target, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Data can be lost, torn or reordered, or recovery fails.
    Bug,
    /// A flush, fence or log entry that has no effect.
    Performance,
    /// A pattern that only the author of the target can judge.
    Warning,
}

impl Severity {
    /// All severities, the worst first.
    pub const ALL: [Self; 3] = [Self::Bug, Self::Performance, Self::Warning];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bug => "bug",
            Self::Performance => "performance",
            Self::Warning => "warning",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Which findings make a check fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailOn {
    #[default]
    Bug,
    /// Bugs and performance findings.
    Performance,
    /// All findings.
    Warning,
    Never,
}

impl FailOn {
    /// Whether a finding of this severity makes the check fail.
    pub fn is_reached_by(self, severity: Severity) -> bool {
        match self {
            Self::Bug => severity <= Severity::Bug,
            Self::Performance => severity <= Severity::Performance,
            Self::Warning => severity <= Severity::Warning,
            Self::Never => false,
        }
    }
}

/// The kind of harm that a finding can cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// A crash may lose data.
    Durability,
    /// After a crash, data may exist without the data it depends on.
    Ordering,
    /// After a crash, data may exist only in part.
    Atomicity,
    /// A flush, fence or log entry has no effect.
    Performance,
    /// A thread may act on data of another thread that a crash can still lose.
    Race,
}

impl Category {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Durability => "durability",
            Self::Ordering => "ordering",
            Self::Atomicity => "atomicity",
            Self::Performance => "performance",
            Self::Race => "race",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_fails_on_the_given_severity_and_worse() {
        let failing = |fail_on: FailOn| {
            let reached = |severity: &Severity| fail_on.is_reached_by(*severity);
            Severity::ALL
                .iter()
                .copied()
                .filter(reached)
                .collect::<Vec<_>>()
        };
        assert_eq!(failing(FailOn::Bug), [Severity::Bug]);
        assert_eq!(
            failing(FailOn::Performance),
            [Severity::Bug, Severity::Performance]
        );
        assert_eq!(failing(FailOn::Warning), Severity::ALL);
        assert_eq!(failing(FailOn::Never), []);
    }
}
