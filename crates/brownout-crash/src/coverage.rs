//! How much of what there is a test has tried, and why each crash point was tried.

use std::collections::HashSet;

use brownout_report::{ExplorationCoverage, SharedStartCoverage};
use serde::{Deserialize, Serialize};

use crate::failure_point::FailurePoints;
use crate::object_types::TypedShare;
use crate::trial::Trial;

/// Why a crash point is tried.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum TrialPurpose {
    /// To try a failure point for the first time.
    #[default]
    FailurePoint,
    /// To try a [suspect](crate::Suspect), with an image in which its stores are lost.
    Suspect,
    /// To try a failure point again, at another occurrence.
    Occurrence,
    /// To try a state between stores, although the user did not ask for that granularity.
    Store,
    /// To try stores that persist in another order than that of the program.
    OpenOrder,
    /// To try an update behaviour.
    UpdateBehaviour,
    /// To try a crash inside recovery.
    Interruption,
}

/// How much there is to try in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    pub failure_points: u64,
    /// Occurrences of all failure points.
    pub occurrences: u64,
    /// States between stores.
    pub stores: u64,
    /// Images in which stores persist in another order than that of the program.
    #[serde(default)]
    pub orders: u64,
    /// Update behaviours: those that represent others, and those at code that no representative reaches.
    #[serde(default)]
    pub behaviours: u64,
    /// Those of them of which a crash can leave more states than are tried.
    #[serde(default)]
    pub behaviours_sampled: u64,
    /// How the types of objects were determined by which update behaviours are found.
    #[serde(default)]
    pub typed: TypedShare,
    /// Whether update behaviours are to be tried and were not looked for.
    #[serde(default)]
    pub behaviours_unknown: bool,
    /// Further ones that are left out because an earlier run has tested them.
    #[serde(default)]
    pub remembered: u64,
}

impl Extent {
    pub fn of(points: &FailurePoints) -> Self {
        let leaves = points.leaves();
        Self {
            failure_points: leaves.len() as u64,
            occurrences: leaves.iter().map(|leaf| leaf.count).sum(),
            ..Self::default()
        }
    }

    /// The larger of both in each respect.
    pub fn max(self, other: Self) -> Self {
        Self {
            failure_points: self.failure_points.max(other.failure_points),
            occurrences: self.occurrences.max(other.occurrences),
            stores: self.stores.max(other.stores),
            orders: self.orders.max(other.orders),
            behaviours: self.behaviours.max(other.behaviours),
            behaviours_sampled: self.behaviours_sampled.max(other.behaviours_sampled),
            typed: std::cmp::max_by_key(self.typed, other.typed, TypedShare::stores),
            behaviours_unknown: self.behaviours_unknown && other.behaviours_unknown,
            remembered: self.remembered.max(other.remembered),
        }
    }
}

/// How much of the extent was tried.
pub fn tried(trials: &[Trial]) -> Extent {
    let behaviours = trials.iter().filter_map(|trial| trial.behaviour);
    let behaviours: HashSet<u64> = behaviours.collect();
    let mut tried = Extent {
        behaviours: behaviours.len() as u64,
        ..Extent::default()
    };
    for trial in trials {
        if trial.reached_from.is_some() {
            continue;
        }
        match trial.purpose {
            TrialPurpose::FailurePoint => {
                tried.failure_points += 1;
                tried.occurrences += 1;
            }
            TrialPurpose::Suspect | TrialPurpose::Interruption | TrialPurpose::UpdateBehaviour => {}
            TrialPurpose::Occurrence => tried.occurrences += 1,
            TrialPurpose::Store => tried.stores += 1,
            TrialPurpose::OpenOrder => tried.orders += 1,
        }
    }
    tried
}

/// On how many different images recovery was run.
pub fn recovered_images(trials: &[Trial]) -> u64 {
    let run = trials.iter().filter(|trial| trial.same_as.is_none());
    run.count() as u64
}

/// How a campaign ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CampaignEnd {
    /// Everything that the strategy proposes was tried.
    Exhausted,
    /// It was stopped after all crash points that the strategy requires.
    Sufficient,
    /// It was stopped before.
    Incomplete,
    /// It ended early because recovery failed on every image in the same way.
    FailsEverywhere,
}

impl CampaignEnd {
    /// Whether everything was tried that the strategy requires.
    pub fn is_complete(self) -> bool {
        matches!(self, Self::Exhausted | Self::Sufficient)
    }
}

/// What a journal says at the end of a campaign.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CampaignEnding {
    pub end: CampaignEnd,
    /// Crash points that the strategy has proposed, those of other shards included.
    pub proposed: u64,
    pub extent: Extent,
    pub seconds: f64,
    /// Of a strategy that explores all behaviours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exploration: Option<ExplorationCoverage>,
    /// If recoveries have shared their starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_starts: Option<SharedStartCoverage>,
}

/// What two campaigns have counted together.
fn added(
    one: Option<SharedStartCoverage>,
    other: Option<SharedStartCoverage>,
) -> Option<SharedStartCoverage> {
    match (one, other) {
        (Some(mut one), Some(other)) => {
            one.add(other);
            Some(one)
        }
        (one, other) => one.or(other),
    }
}

impl CampaignEnding {
    /// The ending of this campaign and `later`, which continued it.
    pub fn continued(self, later: Self) -> Self {
        Self {
            seconds: self.seconds + later.seconds,
            shared_starts: added(self.shared_starts, later.shared_starts.clone()),
            ..later
        }
    }

    /// The ending of this part of a test and `other`, another part.
    pub fn joined(self, other: Self) -> Self {
        let end = match (self.end, other.end) {
            (CampaignEnd::FailsEverywhere, CampaignEnd::FailsEverywhere) => {
                CampaignEnd::FailsEverywhere
            }
            (one, other) if !(one.is_complete() && other.is_complete()) => CampaignEnd::Incomplete,
            (CampaignEnd::Exhausted, CampaignEnd::Exhausted) => CampaignEnd::Exhausted,
            _ => CampaignEnd::Sufficient,
        };
        Self {
            end,
            // A strategy that learns may propose more in one part than in another.
            proposed: self.proposed.max(other.proposed),
            extent: self.extent.max(other.extent),
            seconds: self.seconds + other.seconds,
            // Such a test has no parts.
            exploration: None,
            shared_starts: added(self.shared_starts, other.shared_starts),
        }
    }
}
