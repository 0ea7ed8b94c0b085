//! What is known of a rule before it finds anything.

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
    /// Markdown: what the rule finds, why that is bad, an example, how to fix it.
    pub explanation: &'static str,
}

/// Whether a finding is wrong by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Bug,
    /// A pattern that only the author of the program can judge.
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

/// What a finding endangers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// Data may not be there after a crash.
    Durability,
    /// Data may be there without what it depends on.
    Ordering,
    /// Data may be there in part.
    Atomicity,
    /// Work is done that has no effect.
    Performance,
    /// Threads may see, and build upon, what a crash takes back.
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
