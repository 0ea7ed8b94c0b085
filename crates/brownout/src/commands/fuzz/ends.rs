//! What a campaign does not show because of how executions have ended.

use brownout_fuzz::EndCounts;
use brownout_report::{Reason, ReasonKind};

use crate::exit_code::ExitCode;
use crate::quantity::number_of;
use crate::shortfall::Shortfall;

/// What is known of a campaign at its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct CampaignEnd {
    pub ends: EndCounts,
    /// Whether operations on persistent memory were seen.
    pub has_paths: bool,
    /// Whether an input was examined.
    pub is_examined: bool,
    pub has_bugs: bool,
}

impl CampaignEnd {
    /// Why the campaign does not show that the program is correct.
    pub fn shortfalls(self) -> Vec<Shortfall> {
        let ends = self.ends;
        let executions = number_of(ends.all(), "execution");
        let mut all = Vec::new();
        let mut add = |code, kind, why: String| {
            let reason = Reason::new(kind, why);
            all.push(Shortfall { code, reason });
        };
        if ends.timed_out > 0 && ends.timed_out == ends.all() {
            add(
                ExitCode::NothingTested,
                ReasonKind::CoverageGap,
                format!(
                    "none of {executions} has ended within --timeout, so that nothing was examined; give more time, or inputs on which the \
                     program ends"
                ),
            );
        } else if !self.has_paths {
            add(
                ExitCode::NothingTested,
                ReasonKind::NothingPersistent,
                format!(
                    "no operation on persistent memory was seen in {executions}; give inputs that make the program use its files, with --seeds"
                ),
            );
        } else if !self.is_examined {
            let why = "no input was examined: the campaign ended before".to_owned();
            add(ExitCode::NothingTested, ReasonKind::CoverageGap, why);
        }
        let has_ended = ends.failed + ends.killed > 0;
        if has_ended && ends.succeeded == 0 {
            // What was found is there all the same.
            let (code, kind) = match self.has_bugs {
                true => (ExitCode::NothingTested, ReasonKind::Other),
                false => (ExitCode::TargetFailed, ReasonKind::TargetFailed),
            };
            add(
                code,
                kind,
                format!(
                    "the program has never ended with status 0 in {executions}; give inputs that it accepts, with --seeds"
                ),
            );
        }
        all
    }

    /// What was left out, in a sentence.
    pub fn left_out(self) -> Option<String> {
        let ends = self.ends;
        (ends.timed_out > 0).then(|| {
            format!(
                "{} of {} did not end within --timeout; what they did is not judged",
                ends.timed_out,
                number_of(ends.all(), "execution")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end([succeeded, failed, killed, timed_out]: [u64; 4]) -> CampaignEnd {
        CampaignEnd {
            ends: EndCounts {
                succeeded,
                failed,
                killed,
                timed_out,
            },
            has_paths: true,
            is_examined: true,
            has_bugs: false,
        }
    }

    fn codes(end: CampaignEnd) -> Vec<(ExitCode, ReasonKind)> {
        let shortfalls = end.shortfalls().into_iter();
        shortfalls
            .map(|shortfall| (shortfall.code, shortfall.reason.kind))
            .collect()
    }

    #[test]
    fn a_campaign_whose_executions_end_and_are_examined_has_no_shortfall() {
        assert_eq!(codes(end([1, 9, 0, 2])), []);
        let left_out = end([1, 9, 0, 2]).left_out().unwrap();
        assert!(left_out.starts_with("2 of 12 executions"), "{left_out}");
        assert_eq!(end([1, 0, 0, 0]).left_out(), None);
    }

    #[test]
    fn executions_that_are_all_cut_off_show_nothing() {
        let cut_off = (ExitCode::NothingTested, ReasonKind::CoverageGap);
        assert_eq!(codes(end([0, 0, 0, 7])), [cut_off]);
    }

    #[test]
    fn without_operations_or_examined_inputs_nothing_was_tested() {
        let blind = CampaignEnd {
            has_paths: false,
            ..end([5, 0, 0, 0])
        };
        let nothing = (ExitCode::NothingTested, ReasonKind::NothingPersistent);
        assert_eq!(codes(blind), [nothing]);
        let hasty = CampaignEnd {
            is_examined: false,
            ..end([5, 0, 0, 0])
        };
        let untested = (ExitCode::NothingTested, ReasonKind::CoverageGap);
        assert_eq!(codes(hasty), [untested]);
    }

    #[test]
    fn a_program_that_always_fails_is_a_failure_unless_a_bug_was_found() {
        let failed = (ExitCode::TargetFailed, ReasonKind::TargetFailed);
        assert_eq!(codes(end([0, 5, 0, 0])), [failed]);
        let found = CampaignEnd {
            has_bugs: true,
            ..end([0, 5, 1, 0])
        };
        assert_eq!(codes(found)[0].0, ExitCode::NothingTested);
    }
}
