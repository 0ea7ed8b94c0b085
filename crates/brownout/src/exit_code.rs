//! Every status that brownout itself ends with. `record` passes the target's own status through
//! instead, once the target runs.

use std::fmt::Write as _;

/// What the shell sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    Success = 0,
    BugsFound = 1,
    Usage = 2,
    NothingPersistent = 3,
    TargetFailed = 4,
    Internal = 70,
}

impl ExitCode {
    const ALL: [Self; 6] = [
        Self::Success,
        Self::BugsFound,
        Self::Usage,
        Self::NothingPersistent,
        Self::TargetFailed,
        Self::Internal,
    ];

    fn meaning(self) -> &'static str {
        match self {
            Self::Success => "nothing found (warnings allowed)",
            Self::BugsFound => "bugs found",
            Self::Usage => "the command line, a file or the machine does not allow it",
            Self::NothingPersistent => "nothing persistent was seen",
            Self::TargetFailed => {
                "the target, or recovery on the uncrashed image, failed on its own"
            }
            Self::Internal => "a fault of brownout",
        }
    }

    /// The table at the foot of `brownout --help`.
    pub fn table() -> String {
        let mut table = String::from("Exit codes (record passes the program's own on):\n");
        for code in Self::ALL {
            let _ = writeln!(table, "  {:>2}  {}", code as u8, code.meaning());
        }
        table
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}
