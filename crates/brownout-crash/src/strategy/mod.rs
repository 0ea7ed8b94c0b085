//! Strategies: which crash points are tried, and in which order.
//!
//! A strategy proposes crash points, gets their verdicts, and may use them for what it proposes next. The
//! [campaign](crate::Campaign) builds the images, runs the recoveries and writes the journal. One file a strategy; a
//! strategy is registered with one line in `registry!`.

mod expected_value;
mod further;
mod most_different_first;
mod novelty;
mod occurrences;
mod store_states;
mod thinning;
mod wave;
mod xorshift;

pub(crate) use occurrences::in_turns;
pub(crate) use store_states::{own_code_first, points_at_stores};
pub(crate) use thinning::Thinning;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use brownout_model::{Profile, Tearing};
use brownout_recovery::{
    Attempt, ByteRanges, RecoveryRunner, RecoveryTask, RunnerError, SharedStarts,
};
use brownout_report::ExplorationCoverage;
use serde::{Deserialize, Serialize};

use crate::coverage::{Extent, TrialPurpose};
use crate::crash_point::{Choice, CrashPoint};
use crate::error::CrashError;
use crate::explored_behaviours::{ExploredBehaviours, ExploredPages};
use crate::failure_point::{FailurePoint, PointKind, StackId};
use crate::image::CrashImage;
use crate::operation::Operation;
use crate::possible_reads::PossibleReads;
use crate::progress::ProgressObserver;
use crate::recorded_run::{RecordedRun, Survey};
use crate::recovery_run::RecoveryRun;
use crate::suspect::{Suspect, SuspectImages};
use crate::symbols::Symbols;
use crate::tested_behaviours::{TestedBehaviour, TestedBehaviours};
use crate::trial::Trial;
use crate::update_behaviour::TriedUpdate;

macro_rules! registry {
    ($($module:ident::$info:ident,)*) => {
        $(mod $module;)*

        /// All strategies, the default first.
        pub static STRATEGIES: &[&StrategyInfo] = &[$(&$module::$info),*];
    };
}

registry! {
    auto::AUTO,
    prefix::PREFIX,
    representative::REPRESENTATIVE,
    exhaustive::EXHAUSTIVE,
}

/// What is known about a strategy before it starts.
#[derive(Debug)]
pub struct StrategyInfo {
    /// As on the command line.
    pub name: &'static str,
    /// Increased when the strategy proposes other crash points than before for the same trace and options.
    pub version: u32,
    /// For `--help`.
    pub summary: &'static str,
    /// How long it tests if the user sets no limit; `None` if until everything is tried.
    pub time_limit: Option<Duration>,
    /// Whether it tries the findings of lint.
    pub tries_suspects: bool,
    /// Whether it tries every crash that can differ, so that none can be left out or tried elsewhere.
    pub tries_all: bool,
    /// Whether it tests update behaviours and nothing else: those that were tested earlier can be left out, how often a failure point
    /// occurs does not matter, and there is nothing to try where stores persist in the order of the program.
    pub tests_behaviours: bool,
    pub start: fn(StrategyInput<'_>) -> Result<Box<dyn Strategy>, CrashError>,
}

impl StrategyInfo {
    pub fn named(name: &str) -> Option<&'static Self> {
        STRATEGIES.iter().copied().find(|info| info.name == name)
    }

    /// The strategy that is used if none is named.
    pub fn default_strategy() -> &'static Self {
        STRATEGIES[0]
    }

    /// What a journal says about the strategy.
    pub fn id(&self) -> StrategyId {
        StrategyId {
            name: self.name.to_owned(),
            version: self.version,
        }
    }
}

/// A strategy as a journal names it. Trials of different strategies, or versions of one, are never mixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrategyId {
    pub name: String,
    pub version: u32,
}

impl std::fmt::Display for StrategyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (version {})", self.name, self.version)
    }
}

/// The strategy that decides how update behaviours are tested, whichever strategy does it.
pub(crate) fn behaviour_strategy() -> StrategyId {
    representative::REPRESENTATIVE.id()
}

/// What a strategy starts from.
pub struct StrategyInput<'a> {
    pub run: &'a RecordedRun,
    pub survey: &'a Survey,
    pub symbols: &'a mut dyn Symbols,
    /// How many occurrences of each failure point the user wants; `None` if the strategy decides.
    pub occurrences: Option<usize>,
    /// How many states to explore at each failure point, at most.
    pub max_states: Option<u64>,
    /// How many runs may crash in a row: with 1 only the target, with 2 recovery, too, and so on.
    pub depth: usize,
    /// Findings of lint that crash images can confirm.
    pub suspects: &'a [Suspect],
    /// The persistency profile of the run.
    pub profile: Profile,
    /// Whether a crash can keep part of a store. Explorations and tests of update behaviours use it.
    pub tearing: Tearing,
    /// Update behaviours that earlier runs have tested under the same circumstances; `None` if none are to be remembered.
    pub memory: Option<&'a TestedBehaviours>,
    /// Behaviours of recovery that explorations of other recordings have shown under the same circumstances; `None` if none are to be
    /// remembered.
    pub explored: Option<&'a ExploredBehaviours>,
}

/// A crash point to try, and what is known about its failure point.
#[derive(Clone, Debug)]
pub struct ProposedCrash {
    pub point: CrashPoint,
    pub kind: PointKind,
    pub stack: Option<StackId>,
    pub operation: Operation,
    pub purpose: TrialPurpose,
    /// The calling context of the last store that is lost, of a crash that tries an open order.
    pub lost: Option<StackId>,
    /// Whether it is compared with a failure: the part of a test that has seen the failure tries it, whichever part it belongs to,
    /// because other parts may not propose it.
    pub is_comparison: bool,
    /// The recoveries that are interrupted, one for each [interruption](crate::Interruption) of the crash point.
    pub recoveries: Vec<RecoveryRun>,
    /// Whether one of them would have failed otherwise: then a failure is none of this crash.
    pub fails_anyway: bool,
    /// The bytes of each persistent file whose first reads are observed; none if recovery runs natively.
    pub observed: Arc<[ByteRanges]>,
    /// Whether it is tried again although it was tried before, to observe more.
    pub is_repeated: bool,
    /// The update behaviour that it tries.
    pub behaviour: Option<Arc<TriedBehaviour>>,
}

/// The update behaviour that a crash tries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedBehaviour {
    /// Its number in the run.
    pub number: u64,
    /// Its updates.
    pub updates: Vec<TriedUpdate>,
}

impl From<FailurePoint> for ProposedCrash {
    /// The crash in program order.
    fn from(point: FailurePoint) -> Self {
        Self {
            point: CrashPoint::program_order(point.occurrence.event.0),
            kind: point.kind,
            stack: point.stack,
            operation: point.occurrence.operation,
            purpose: TrialPurpose::default(),
            lost: None,
            is_comparison: false,
            recoveries: Vec::new(),
            fails_anyway: false,
            observed: Arc::default(),
            is_repeated: false,
            behaviour: None,
        }
    }
}

/// Chooses crash points.
pub trait Strategy {
    /// Is called before [`propose`](Self::propose), for what has to read the run again and may fail. A strategy that the observer keeps
    /// from preparing all that it has to propose answers [`Break`](ControlFlow::Break).
    fn prepare(
        &mut self,
        _: &mut dyn Symbols,
        _: &mut dyn ProgressObserver,
    ) -> Result<ControlFlow<()>, CrashError> {
        Ok(ControlFlow::Continue(()))
    }

    /// The next crash points to try, in any order; none if there is nothing to try now.
    ///
    /// It is called again without waiting for the verdicts, so that recoveries do not pause. After an empty answer it is
    /// called again when a verdict has arrived; a campaign ends with an empty answer when no recovery is running.
    /// All images of one answer are built in one pass over the trace. All [choices](Choice) of a strategy have the same
    /// profile; a campaign ends with an error otherwise.
    fn propose(&mut self) -> Vec<ProposedCrash>;

    /// Takes the result of a crash point: one that was proposed, or one that an earlier, interrupted campaign tried.
    fn learn(&mut self, trial: &Trial);

    /// How many crash points there are to try as far as the strategy knows, those already proposed included.
    fn planned(&self) -> u64;

    /// How much there is to try. By default, what is planned.
    fn extent(&self) -> Extent {
        let planned = self.planned();
        Extent {
            failure_points: planned,
            occurrences: planned,
            ..Extent::default()
        }
    }

    /// How many crash points have to be tried before a time limit may end the test without making it incomplete; they are
    /// those with the purpose [`TrialPurpose::FailurePoint`]. `None`, the default, if all have to be tried.
    fn required(&self) -> Option<u64> {
        None
    }

    /// Whether it explores all behaviours of recovery.
    fn explores(&self) -> bool {
        false
    }

    /// How far it has explored all behaviours of recovery; `None` if that is not what it does. To find out takes time.
    fn exploration(&self) -> Option<ExplorationCoverage> {
        None
    }

    /// The reads of recovery that can see several stores; `None` if it does not explore what recovery reads.
    fn possible_reads(&mut self) -> Option<PossibleReads> {
        None
    }

    /// The update behaviours that these trials have decided, if behaviours are to be remembered.
    fn tested_behaviours(&self, _: &[Trial]) -> Vec<TestedBehaviour> {
        Vec::new()
    }

    /// The behaviours of recovery that these trials have shown, if they are to be remembered and recovery always does the same.
    fn explored(&self, _: &[Trial]) -> Option<ExploredPages> {
        None
    }

    /// The suspects that it tries.
    fn suspects(&self) -> &[SuspectImages] {
        &[]
    }

    /// How a crash point is tried. By default recovery runs natively on its image.
    ///
    /// A strategy that runs recovery under the engine calls [`RecoveryRunner::run_under_engine`].
    fn job(&self, _: &ProposedCrash) -> TrialJob {
        TrialJob::Native
    }
}

/// How a crash point is tried, in the thread of a runner.
pub enum TrialJob {
    /// Recovery runs natively on the image, or what it does natively is known from others. If it takes much longer than usual, the
    /// campaign may put it off.
    Native,
    /// What the strategy does with the image.
    Other(OtherJob),
}

/// What a strategy does with an image.
pub type OtherJob = Box<
    dyn FnOnce(&mut RecoveryRunner, &CrashImage, &RecoveryTask) -> Result<TrialResults, RunnerError>
        + Send,
>;

impl TrialJob {
    /// Tries an image. Returns `None` if recovery takes much longer than usual, unless it is given all the time.
    pub(crate) fn run(
        self,
        effort: Effort,
        runner: &mut RecoveryRunner,
        image: &CrashImage,
        task: &RecoveryTask,
    ) -> Result<Option<TrialResults>, RunnerError> {
        let files = &image.files;
        let proposed = match (self, effort) {
            (Self::Other(job), _) => return job(runner, image, task).map(Some),
            (Self::Native, Effort::Full) => Some(runner.attempt(files, task)?),
            (Self::Native, Effort::Brief) => runner.attempt_briefly(files, task)?,
            (Self::Native, Effort::Shared(starts)) => {
                runner.attempt_shared(files, task, &starts)?
            }
        };
        Ok(proposed.map(|proposed| TrialResults {
            proposed,
            others: Vec::new(),
        }))
    }
}

/// How much a native recovery may take.
pub(crate) enum Effort {
    /// The time limit.
    Full,
    /// Little more time than those that pass.
    Brief,
    /// As little, and nothing that earlier recoveries have done.
    Shared(Arc<SharedStarts>),
}

/// The results of trying a crash point.
#[derive(Debug)]
pub struct TrialResults {
    /// Recovery on the proposed image. It is also the result of other crash points with an equal image.
    pub proposed: Attempt,
    /// Other states at the same event that the job tried. Those that were tried before are ignored.
    pub others: Vec<TriedState>,
}

/// The result of recovering from a state of persistent memory that was not proposed.
#[derive(Debug)]
pub struct TriedState {
    /// Which stores were present; `None` if all were.
    pub choice: Option<Choice>,
    pub attempt: Attempt,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_find_their_strategy() {
        for info in STRATEGIES {
            let found = StrategyInfo::named(info.name).unwrap();
            assert!(
                std::ptr::eq(found, *info),
                "{} is registered twice",
                info.name
            );
        }
        assert!(StrategyInfo::named("").is_none());
    }
}
