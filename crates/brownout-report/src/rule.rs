//! The description of a rule: id, severity, category and texts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A rule of an analysis. Ids are stable: suppressions and baselines name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleInfo {
    pub id: &'static str,
    pub severity: Severity,
    pub category: Category,
    /// One line without a full stop.
    pub summary: &'static str,
    /// Markdown: what the rule detects, why that is bad, an example and how to fix it.
    pub explanation: &'static str,
}

/// How certain it is that a finding must be fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Bug,
    /// A pattern that only the author of the target can judge.
    Warning,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bug => "bug",
            Self::Warning => "warning",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
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
