//! What forcing a race has shown, and how its finding says so.

use std::collections::BTreeMap;

use brownout_race::{Dependence, Harm, LockName, ReaderAct};
use brownout_report::{Evidence, Finding, FindingId, Severity};
use brownout_trace::Definitions;

use super::lost_store::ForcedVerdict;
use super::summary;
use crate::race_run::RaceRun;

/// What came of forcing a race.
pub enum ForcingOutcome {
    /// Another thread read the store and acted on it while a crash could lose it.
    Reproduced(Box<Reproduction>),
    /// The reader waited for locks that the storing thread held. That it waits in each run, one run cannot show.
    Blocked { locks: Vec<String> },
    /// Why it did not happen.
    NotForced(String),
}

/// A race that was forced.
pub struct Reproduction {
    pub act: ReaderAct,
    /// What the reader did that depends on what it has read.
    pub harm: Option<Harm>,
    /// What recovery did, if it was run.
    pub verdict: Option<ForcedVerdict>,
    pub token: Option<String>,
    /// Which stores the crash image lacks.
    pub state: String,
}

/// Notes what forcing races has shown. No race is left out because of it.
pub fn apply(outcomes: Vec<(FindingId, ForcingOutcome)>, has_recovery: bool, run: &mut RaceRun) {
    let count = outcomes.len();
    let (mut confirmed, mut reproduced) = (0, 0);
    // Several races are one finding if their stacks look alike: what shows most counts.
    let mut by_finding: BTreeMap<FindingId, ForcingOutcome> = BTreeMap::new();
    for (id, outcome) in outcomes {
        confirmed += usize::from(outcome.is_confirmed());
        reproduced += usize::from(matches!(outcome, ForcingOutcome::Reproduced(_)));
        match by_finding.get(&id) {
            Some(known) if known.weight() >= outcome.weight() => {}
            _ => drop(by_finding.insert(id, outcome)),
        }
    }
    for finding in &mut run.findings {
        if let Some(outcome) = by_finding.remove(&finding.id) {
            outcome.mark(finding);
        }
    }
    run.remarks
        .push(summary(confirmed, reproduced, count, has_recovery));
}

impl ForcingOutcome {
    /// Whether recovery fails because of the race.
    pub fn is_confirmed(&self) -> bool {
        let ForcingOutcome::Reproduced(known) = self else {
            return false;
        };
        matches!(known.verdict, Some(ForcedVerdict::Failed(_)))
    }

    fn weight(&self) -> u8 {
        match self {
            ForcingOutcome::Reproduced(_) if self.is_confirmed() => 4,
            ForcingOutcome::Reproduced(_) => 3,
            ForcingOutcome::NotForced(_) => 2,
            ForcingOutcome::Blocked { .. } => 1,
        }
    }

    fn mark(self, finding: &mut Finding) {
        let text = match self {
            ForcingOutcome::Reproduced(known) => match known.mark(finding) {
                Some(text) => text,
                None => return,
            },
            ForcingOutcome::Blocked { locks } => format!(
                "blocked: while the storing thread was held, the reader waited for a lock that it holds ({}); in another run the \
                 reader may come first",
                locks.join(", ")
            ),
            ForcingOutcome::NotForced(why) => format!("not reproduced: {why}"),
        };
        let details = &mut finding.evidence.details;
        details.insert(Evidence::FORCED.to_owned(), text);
    }
}

impl Reproduction {
    /// What came of it, unless the finding says so as its proof.
    fn mark(self, finding: &mut Finding) -> Option<String> {
        let act = match self.act {
            ReaderAct::Persisted { .. } => "made a store of its own durable",
            _ => "sent data out of the process",
        };
        let how = match self.harm {
            Some(Harm::Dependent { how, .. }) => {
                finding.severity = Severity::Bug;
                match how {
                    Dependence::Target => " in the object that the loaded pointer refers to",
                    _ => ", a copy of what it had loaded",
                }
            }
            _ => "",
        };
        let details = &mut finding.evidence.details;
        if !self.state.is_empty() {
            details.insert(Evidence::CRASH_STATE.to_owned(), self.state);
        }
        let forced = format!(
            "the storing thread was held before its persist, and the reader loaded the store and {act}{how}"
        );
        Some(match self.verdict {
            Some(ForcedVerdict::Failed(attempt)) => {
                let proof = format!(
                    "{forced}; recovery {} on the image of a crash before the store is durable, which loses that store alone",
                    attempt.verdict
                );
                details.insert(Evidence::CONFIRMED.to_owned(), proof);
                if !attempt.output.is_empty() {
                    details.insert(Evidence::LAST_OUTPUT.to_owned(), attempt.output.join("\n"));
                }
                finding.confirmed = Some(true);
                finding.severity = Severity::Bug;
                if self.token.is_some() {
                    finding.replay = self.token;
                }
                return None;
            }
            Some(ForcedVerdict::Passed) => {
                finding.confirmed = Some(false);
                format!(
                    "reproduced: {forced}; recovery passed on the images of crashes before the store is durable"
                )
            }
            Some(ForcedVerdict::FailsAnyway) => format!(
                "reproduced: {forced}; recovery also fails there with the store present, so the failure says nothing about the race"
            ),
            Some(ForcedVerdict::NotRun(why)) => {
                format!("reproduced: {forced}; recovery was not run, because {why}")
            }
            None => format!("reproduced: {forced}"),
        })
    }
}

/// A lock in words.
pub fn lock_text(lock: LockName, definitions: &Definitions) -> String {
    match lock {
        LockName::InFile { file, offset } => {
            let file = definitions.file(file);
            let path = file.map(|file| file.path.display().to_string());
            format!("{}+{offset:#x}", path.unwrap_or_default())
        }
        LockName::InMemory { addr, .. } => addr.to_string(),
        _ => "an unknown lock".to_owned(),
    }
}
