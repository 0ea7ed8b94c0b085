//! Suspects: findings of lint whose harm a crash can show, and what trying them says.
//!
//! Lint reports stores that can be lost, or whose order is open. Whether that matters, only recovery knows. A suspect is
//! tried with images in which exactly its stores are lost, and everything else that the persistency model allows is
//! present: those stores, and the later ones to the same unit, which cannot persist without them.
//! If recovery fails on such an image, and passes at the same instant both in program order and if those later stores alone
//! are lost, the finding is confirmed.
//!
//! `occurrences` and `followed` find the stores and fences of a suspect in the run, `live_store` the failure points at which they are
//! tried; `images` makes choices of the model of them, so a crash can leave every image.
//!
//! Can miss: harm that only shows if several findings come together, and at occurrences or instants that were not chosen.

mod followed;
mod images;
mod live_store;
mod occurrences;
mod open_orders;
mod open_syncs;
mod wide_stores;

use std::collections::{HashMap, HashSet};

use brownout_trace::{AppPc, ContextId, Event, EventIndex, ProcessId};
use serde::{Deserialize, Serialize};

use crate::coverage::TrialPurpose;
use crate::crash_point::CrashPoint;
use crate::trial::Trial;

pub(crate) use images::{OrderImages, propose};

/// A finding of lint that crash images can confirm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// The id of the finding.
    pub finding: String,
    pub suspicion: Suspicion,
}

/// What may go wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suspicion {
    /// One of these stores is lost, and later ones are not.
    LostStore {
        stores: Vec<SuspectStore>,
        /// Whether they never become guaranteed.
        forever: bool,
    },
    /// What this fence orders persists in another order.
    OpenOrder(SuspectSite),
}

impl Suspicion {
    fn is_forever(&self) -> bool {
        matches!(self, Self::LostStore { forever: true, .. })
    }
}

/// A store that may be lost: its site, and the first event of that site of which lint says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuspectStore {
    pub site: SuspectSite,
    pub event: EventIndex,
}

/// The site of a suspect: an instruction in its calling context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SuspectSite {
    pub process: ProcessId,
    pub pc: AppPc,
    pub context: ContextId,
}

impl SuspectSite {
    pub(crate) fn of(event: &Event<'_>) -> Self {
        Self {
            process: event.process,
            pc: event.pc,
            context: event.context,
        }
    }
}

/// A suspect and the images that try it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspectImages {
    /// The id of the finding.
    pub suspect: String,
    pub images: Vec<CrashPoint>,
    /// For each image that loses later stores with the suspect's, the one that loses those alone. It is tried if the
    /// image fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keeping: Vec<Option<CrashPoint>>,
    /// Why there is no image, or none of the later part of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_image: Option<NoImage>,
}

/// Why a suspect is not tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoImage {
    /// None of its stores lies before a failure point that is tested.
    NotReached,
    /// At every failure point its stores are guaranteed, or lost in every state.
    NothingToLose,
    /// A crash could lose so many stores at once that they are not followed.
    TooManyStores,
}

impl NoImage {
    /// The name in output for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotReached => "not-reached",
            Self::NothingToLose => "nothing-to-lose",
            Self::TooManyStores => "too-many-stores",
        }
    }

    /// Completes "not tried because".
    pub fn describe(self) -> &'static str {
        match self {
            Self::NotReached => "no failure point that is tested follows their stores",
            Self::NothingToLose => "no crash at a failure point can lose their stores",
            Self::TooManyStores => "a crash could lose too many stores at once to follow them",
        }
    }
}

/// What trying a suspect has shown.
#[derive(Clone, Debug, PartialEq)]
pub struct SuspectVerdict {
    /// The id of the finding.
    pub suspect: String,
    /// Whether recovery fails because of it; `None` if that is not known.
    pub confirmed: Option<bool>,
    /// Images tried.
    pub tried: usize,
    /// The first trial that confirms it.
    pub proof: Option<Trial>,
}

impl SuspectImages {
    /// The images, each with the one that keeps the suspect's store, if there is one.
    fn compared(&self) -> impl Iterator<Item = (&CrashPoint, Option<&CrashPoint>)> {
        let keeping = self.keeping.iter().map(Option::as_ref);
        let keeping = keeping.chain(std::iter::repeat(None));
        self.images.iter().zip(keeping)
    }
}

/// The trial of each crash point.
type TrialsByPoint<'t> = HashMap<&'t CrashPoint, &'t Trial>;

fn by_point(trials: &[Trial]) -> TrialsByPoint<'_> {
    trials.iter().map(|trial| (&trial.point, trial)).collect()
}

/// What the trials say about each suspect.
pub fn judge(suspects: &[SuspectImages], trials: &[Trial]) -> Vec<SuspectVerdict> {
    let by_point = by_point(trials);
    let judged = suspects.iter().map(|suspect| {
        let tried = suspect.compared().filter_map(|(image, keeping)| {
            let trial = by_point.get(image).copied()?;
            Some((trial, meaning(trial, keeping, &by_point)))
        });
        let tried: Vec<(&Trial, Meaning)> = tried.collect();
        let proof = tried.iter().find(|(_, known)| *known == Meaning::Harm);
        let mut meanings = tried.iter().map(|&(_, known)| known);
        let all_harmless = meanings.all(|known| known == Meaning::Harmless);
        SuspectVerdict {
            suspect: suspect.suspect.clone(),
            confirmed: match proof {
                Some(_) => Some(true),
                None if suspect.no_image.is_some() => None,
                None if all_harmless && !tried.is_empty() => Some(false),
                None => None,
            },
            tried: tried.len(),
            proof: proof.map(|&(trial, _)| trial.clone()),
        }
    });
    judged.collect()
}

/// The trials that are findings of their own: all but those of images that show a suspect's harm, which its finding
/// reports, and those of images with losses at instants at which recovery fails anyway. What an exploration has run is always a finding of
/// its own, because it says what recovery could have read; the finding of the suspect is its cause.
pub fn without_suspects(suspects: &[SuspectImages], trials: &[Trial]) -> Vec<Trial> {
    let by_point = by_point(trials);
    let explained: HashSet<&CrashPoint> = suspects
        .iter()
        .flat_map(SuspectImages::compared)
        .filter(|(image, keeping)| {
            let trial = by_point.get(image);
            let meaning = trial.map(|trial| meaning(trial, *keeping, &by_point));
            matches!(meaning, Some(Meaning::Harm | Meaning::Nothing))
        })
        .map(|(image, _)| image)
        .collect();
    // What is tried with stores lost shows nothing if recovery fails without the loss.
    let fails_anyway = |trial: &Trial| {
        let tries_loss = matches!(
            trial.purpose,
            TrialPurpose::Suspect | TrialPurpose::OpenOrder | TrialPurpose::UpdateBehaviour
        );
        let in_order = CrashPoint::program_order(trial.point.event);
        let control = by_point
            .get(&in_order)
            .filter(|_| trial.point.choice.is_some());
        tries_loss && control.is_some_and(|control| !control.verdict.passed())
    };
    let own = trials.iter();
    let is_explained =
        |trial: &Trial| explained.contains(&trial.point) && trial.observation.is_none();
    own.filter(|trial| !is_explained(trial) && !fails_anyway(trial))
        .cloned()
        .collect()
}

/// What the trial of an image says about its suspect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Recovery fails, and passes if the suspect's store is not lost.
    Harm,
    Harmless,
    /// Recovery fails anyway.
    Nothing,
    /// Whether recovery fails anyway is not known.
    Unknown,
}

/// What an image says, by the trials in program order and of the image that keeps the suspect's store.
fn meaning(trial: &Trial, keeping: Option<&CrashPoint>, by_point: &TrialsByPoint<'_>) -> Meaning {
    if trial.verdict.passed() {
        return Meaning::Harmless;
    }
    if trial.is_flaky() {
        return Meaning::Unknown;
    }
    let in_order = CrashPoint::program_order(trial.point.event);
    let mut meaning = Meaning::Harm;
    for without_loss in [Some(&in_order), keeping].into_iter().flatten() {
        match by_point.get(without_loss) {
            Some(control) if control.verdict.passed() => {}
            Some(_) => return Meaning::Nothing,
            None => meaning = Meaning::Unknown,
        }
    }
    meaning
}

#[cfg(test)]
mod tests {
    use brownout_model::Tearing;
    use brownout_recovery::Verdict;

    use super::*;
    use crate::crash_point::{Choice, OtherLines};
    use crate::failure_point::PointKind;
    use crate::trial::Failure;

    fn image(event: u64) -> CrashPoint {
        let choice = Choice {
            profile: "adr".into(),
            tearing: Tearing::Whole,
            others: OtherLines::Newest,
            lines: Vec::new(),
        };
        CrashPoint::chosen(event, Some(choice))
    }

    fn trial(point: CrashPoint, passed: bool) -> Trial {
        Trial {
            point,
            kind: PointKind::Fence,
            purpose: TrialPurpose::Suspect,
            operation: None,
            image: "0".into(),
            same_as: None,
            reached_from: None,
            verdict: if passed {
                Verdict::Passed
            } else {
                Verdict::Failed(1)
            },
            fails_anyway: false,
            seconds: 0.0,
            failure: (!passed).then(Failure::default),
            observation: None,
            behaviour: None,
            indirect: None,
        }
    }

    fn judged(trials: &[Trial]) -> (Option<bool>, usize, usize) {
        let suspects = [SuspectImages {
            suspect: "a".into(),
            images: vec![image(5), image(9)],
            keeping: Vec::new(),
            no_image: None,
        }];
        let verdict = judge(&suspects, trials).remove(0);
        let own = without_suspects(&suspects, trials);
        let failures = own.iter().filter(|trial| trial.failure.is_some());
        (verdict.confirmed, verdict.tried, failures.count())
    }

    #[test]
    fn what_was_not_followed_to_the_end_is_not_harmless() {
        let mut suspects = [SuspectImages {
            suspect: "a".into(),
            images: vec![image(5)],
            keeping: Vec::new(),
            no_image: Some(NoImage::TooManyStores),
        }];
        let passed = [trial(image(5), true)];
        assert_eq!(judge(&suspects, &passed)[0].confirmed, None);
        let in_order = trial(CrashPoint::program_order(5), true);
        let failed = [trial(image(5), false), in_order];
        assert_eq!(judge(&suspects, &failed)[0].confirmed, Some(true));
        suspects[0].no_image = None;
        assert_eq!(judge(&suspects, &passed)[0].confirmed, Some(false));
    }

    #[test]
    fn only_a_failure_that_program_order_does_not_show_confirms() {
        let in_order = |event, passed| trial(CrashPoint::program_order(event), passed);
        assert_eq!(judged(&[]), (None, 0, 0));
        assert_eq!(judged(&[trial(image(5), true)]), (Some(false), 1, 0));
        let failed = trial(image(5), false);
        assert_eq!(
            judged(&[failed.clone(), in_order(5, true)]),
            (Some(true), 1, 0)
        );
        // It fails anyway; whether it does is not known.
        assert_eq!(judged(&[failed.clone(), in_order(5, false)]), (None, 1, 1));
        assert_eq!(judged(std::slice::from_ref(&failed)), (None, 1, 1));
        let both = [failed, trial(image(9), true), in_order(5, false)];
        assert_eq!(judged(&both), (None, 2, 1));
    }

    #[test]
    fn a_failure_that_shows_without_the_loss_of_the_store_confirms_nothing() {
        let keeping = image(7);
        let suspects = [SuspectImages {
            suspect: "a".into(),
            images: vec![image(5)],
            keeping: vec![Some(keeping.clone())],
            no_image: None,
        }];
        let in_order = trial(CrashPoint::program_order(5), true);
        let mut trials = vec![trial(image(5), false), in_order];
        assert_eq!(judge(&suspects, &trials)[0].confirmed, None, "not known");
        trials.push(trial(keeping.clone(), false));
        assert_eq!(judge(&suspects, &trials)[0].confirmed, None);
        let own = without_suspects(&suspects, &trials);
        let failed = own.iter().filter(|trial| trial.failure.is_some());
        let failed: Vec<&CrashPoint> = failed.map(|trial| &trial.point).collect();
        assert_eq!(
            failed,
            [&keeping],
            "the loss of the later stores is a finding"
        );
        trials.pop();
        trials.push(trial(keeping, true));
        assert_eq!(judge(&suspects, &trials)[0].confirmed, Some(true));
    }

    #[test]
    fn a_recovery_that_passes_when_it_runs_again_confirms_nothing() {
        let suspects = [SuspectImages {
            suspect: "a".into(),
            images: vec![image(5)],
            keeping: Vec::new(),
            no_image: None,
        }];
        let mut failed = trial(image(5), false);
        let in_order = trial(CrashPoint::program_order(5), true);
        failed.failure = Some(Failure {
            again: Some(Verdict::Passed),
            ..Failure::default()
        });
        let trials = [failed, in_order];
        assert_eq!(judge(&suspects, &trials)[0].confirmed, None);
    }
}
