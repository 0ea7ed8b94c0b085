//! The exit codes of brownout. Once the target runs, `record` exits with the target's status instead.

use std::fmt::Write as _;

use brownout_report::RunEnd;

/// An exit code of brownout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    Success = 0,
    BugsFound = 1,
    Usage = 2,
    NothingTested = 3,
    TargetFailed = 4,
    Internal = 70,
}

impl ExitCode {
    const ALL: [Self; 6] = [
        Self::Success,
        Self::BugsFound,
        Self::Usage,
        Self::NothingTested,
        Self::TargetFailed,
        Self::Internal,
    ];

    /// The code that an earlier run exited with.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&code| code as u8 == number)
    }

    fn meaning(self) -> &'static str {
        match self {
            Self::Success => "no finding reaches --fail-on (by default: no bugs)",
            Self::BugsFound => "a finding reaches --fail-on (by default: bugs found)",
            Self::Usage => "usage error, or a file or environment that brownout cannot use",
            Self::NothingTested => "nothing persistent was seen, or not everything was tested",
            Self::TargetFailed => {
                "the program failed, or recovery failed on the image without a crash"
            }
            Self::Internal => "internal error in brownout",
        }
    }

    /// The table at the foot of `brownout --help`.
    pub fn table() -> String {
        let mut table =
            String::from("Exit codes (`record` exits with the status of the program):\n");
        for code in Self::ALL {
            let _ = writeln!(table, "  {:>2}  {}", code as u8, code.meaning());
        }
        table
    }
}

impl From<ExitCode> for RunEnd {
    fn from(code: ExitCode) -> Self {
        match code {
            ExitCode::Success => Self::Passed,
            ExitCode::BugsFound => Self::Findings,
            ExitCode::Usage => Self::Error,
            ExitCode::NothingTested => Self::NothingTested,
            ExitCode::TargetFailed => Self::TargetFailed,
            ExitCode::Internal => Self::InternalError,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}
