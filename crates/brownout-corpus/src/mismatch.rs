//! The ways in which a program of the corpus and brownout can disagree.

use std::fmt;

/// A place where program and brownout disagree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mismatch {
    /// A finding that no annotation expects; no line if the program's source is not in the stack.
    Unexpected {
        line: Option<u32>,
        rule: String,
        message: String,
    },
    /// An annotation without a finding.
    Missing { line: u32, rule: String },
    /// Several findings where one is expected.
    TooMany {
        line: u32,
        rule: String,
        found: usize,
    },
    /// A finding that recovery should confirm and does not.
    NotConfirmed { line: u32, rule: String },
    /// A finding that recovery confirms, where that is not written.
    Confirmed { line: u32, rule: String },
    /// What was known to be missed is found.
    NoLongerMissed { line: u32, rule: String },
    /// A store that recovery misses, and no finding says so.
    StoreNotNamed { line: u32, rule: String },
    /// A store that a finding says recovery misses, where that is not written.
    StoreNamed { line: Option<u32>, rule: String },
    /// The findings are more or fewer than the program says it has causes.
    Causes { expected: usize, found: usize },
}

impl Mismatch {
    pub fn line(&self) -> Option<u32> {
        match *self {
            Mismatch::Unexpected { line, .. } | Mismatch::StoreNamed { line, .. } => line,
            Mismatch::Missing { line, .. }
            | Mismatch::TooMany { line, .. }
            | Mismatch::NotConfirmed { line, .. }
            | Mismatch::Confirmed { line, .. }
            | Mismatch::NoLongerMissed { line, .. }
            | Mismatch::StoreNotNamed { line, .. } => Some(line),
            Mismatch::Causes { .. } => None,
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Unexpected { rule, message, .. } => {
                write!(out, "unexpected {rule}: {message}")
            }
            Mismatch::Missing { rule, .. } => write!(out, "{rule} is expected and not found"),
            Mismatch::TooMany { rule, found, .. } => {
                write!(out, "{rule} is found {found} times, expected once")
            }
            Mismatch::NotConfirmed { rule, .. } => {
                write!(out, "{rule} is found, and recovery does not confirm it")
            }
            Mismatch::Confirmed { rule, .. } => {
                write!(out, "recovery confirms {rule}: make it `confirmed`")
            }
            Mismatch::NoLongerMissed { rule, .. } => {
                write!(out, "{rule} is a known miss and found: make it `expect`")
            }
            Mismatch::StoreNotNamed { rule, .. } => {
                write!(out, "{rule} does not name this store as missing")
            }
            Mismatch::StoreNamed { rule, .. } => {
                write!(out, "{rule} names this store as missing, unexpectedly")
            }
            Mismatch::Causes { expected, found } => {
                write!(out, "{expected} causes are expected, and {found} reported")
            }
        }
    }
}
