//! Trials whose verdicts no native recovery has given, until they are taken back.
//!
//! Recoveries that [share their starts](crate::shared_start) are believed to pass. If one of them turns out to be wrong, none is believed
//! any more: all of them are tried again, natively. Those of an earlier campaign that was resumed are no longer known; the next `--resume`
//! tries them.

use std::sync::Arc;

use brownout_recovery::SharedStarts;
use brownout_report::SharedStartCoverage;

use crate::strategy::ProposedCrash;
use crate::trial::Trial;

/// The crash points whose verdicts are believed.
#[derive(Debug, Default)]
pub(crate) struct Believed {
    proposals: Vec<ProposedCrash>,
    /// Those that have to be tried again.
    again: Vec<ProposedCrash>,
    retracted: Option<u64>,
}

impl Believed {
    /// Takes the trial of a proposal.
    pub(crate) fn note(&mut self, trial: &Trial, proposal: &ProposedCrash) {
        if trial.indirect.is_some() {
            self.proposals.push(proposal.clone());
        }
    }

    /// Nothing is believed any more: so many trials are taken back.
    pub(crate) fn retract(&mut self, trials: u64) {
        self.retracted = Some(trials);
        let proposals = self.proposals.drain(..);
        self.again.extend(proposals.map(|proposal| ProposedCrash {
            is_repeated: true,
            ..proposal
        }));
    }

    /// Whether trials were taken back.
    pub(crate) fn is_retracted(&self) -> bool {
        self.retracted.is_some()
    }

    /// The crash points that have to be tried again, once.
    pub(crate) fn take_retracted(&mut self) -> Vec<ProposedCrash> {
        std::mem::take(&mut self.again)
    }

    /// What recoveries have shared; `None` if they have not.
    pub(crate) fn coverage(
        &self,
        starts: Option<&Arc<SharedStarts>>,
    ) -> Option<SharedStartCoverage> {
        let counts = starts?.counts();
        Some(SharedStartCoverage {
            copies: counts.copies,
            known_paths: counts.known_paths,
            checked: counts.checked,
            run_anew: counts.run_anew,
            retracted: self.retracted.unwrap_or(0),
            ended: counts.ended,
        })
    }
}
