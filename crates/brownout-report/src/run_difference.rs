//! What was done differently in two runs, so that the later one need not show what the earlier one has shown.

use crate::Finding;

/// Something in which two runs differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDifference {
    /// In a clause, such as "the model changed from adr to eadr".
    pub text: String,
    pub hides: Hides,
}

/// Which findings a difference can hide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hides {
    AnyFinding,
    CrashFindings,
}

impl RunDifference {
    pub fn new(hides: Hides, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            hides,
        }
    }

    pub(crate) fn can_hide(&self, finding: &Finding) -> bool {
        match self.hides {
            Hides::AnyFinding => true,
            Hides::CrashFindings => {
                let first = finding.stacks.first();
                let shows_read = first.is_some_and(|stack| stack.is_of_open_read());
                finding.is_crash_finding() || shows_read
            }
        }
    }
}
