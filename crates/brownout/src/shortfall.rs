//! Why a run that found nothing has not passed, and the conclusion that follows from it.

use brownout_report::{Conclusion, Reason, Reasons, Report};

use crate::console::Console;
use crate::exit_code::ExitCode;
use crate::finding_output;

/// Something that keeps a run from showing that the target is correct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// What the run exits with because of it.
    pub code: ExitCode,
    pub reason: Reason,
}

impl Shortfall {
    pub fn print(&self, console: &Console) {
        match self.code {
            ExitCode::Usage => console.error(&self.reason.text),
            _ => console.warn(&self.reason.text),
        }
    }
}

/// How a run with these findings ends. If not everything was tested, findings still decide; any other shortfall
/// decides before findings do, and the first before later ones.
pub fn conclude(
    report: &Report,
    shortfalls: &[Shortfall],
    tested: Vec<String>,
) -> (ExitCode, Conclusion) {
    let decisive = shortfalls
        .iter()
        .map(|shortfall| shortfall.code)
        .find(|&code| code != ExitCode::NothingTested);
    let code = decisive.unwrap_or_else(|| match finding_output::exit_code(report) {
        ExitCode::Success if !shortfalls.is_empty() => ExitCode::NothingTested,
        code => code,
    });
    let reasons = shortfalls.iter().map(|shortfall| shortfall.reason.clone());
    let conclusion = Conclusion {
        end: code.into(),
        exit_code: Some(code as u8),
        reasons: Reasons(reasons.collect()),
        tested,
        ..Conclusion::default()
    };
    (code, conclusion)
}
