//! The repair of a finding, as `brownout fix` has found it.

use serde::{Deserialize, Serialize};

/// Edits of the sources that repair a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFix {
    pub proof: FixProof,
    /// The edits as a unified diff.
    pub diff: String,
    pub edits: Vec<SourceEdit>,
}

/// How a repair is known to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FixProof {
    /// The recorded trace with the added operations no longer shows the finding.
    Trace,
    /// The unmodified program was run with the added operations and checked again.
    Running,
    /// The program was built from the edited sources, recorded and checked again.
    Rebuilt,
}

impl FixProof {
    /// What it says about the repair.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Trace => {
                "with these operations, the recorded trace does not show the finding; the edited source was not built"
            }
            Self::Running => {
                "with these operations, the running program does not show the finding; the edited source was not built"
            }
            Self::Rebuilt => {
                "proven: the program built from the edited source does not show the finding"
            }
        }
    }
}

/// Text that takes the place of a part of a file. Lines and columns are counted from 1, columns in UTF-16 code units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceEdit {
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub end_line: u32,
    pub end_column: u32,
    pub text: String,
}
