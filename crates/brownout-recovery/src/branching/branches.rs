//! The branching recovery of a runner that explores: given up if recovery cannot be run in this way.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use brownout_trace::replay::Content;

use super::host::{BranchingHost, CPU_LIMIT, StartInput, common_start};
use super::question_tree::QuestionTree;
use super::{BranchRun, BranchingError, ReadGuide};
use crate::{ByteRanges, RecoveryTask, Sandbox};

/// A recovery that has to be run anew so often, and more often than not, is always run anew.
pub(super) const MOST_FAILURES: u32 = 4;

/// A branch that seemed to hang, and does not: from then on, branches may use so many times as much processor time.
const MORE_PATIENCE: u32 = 4;

/// A branching recovery, if there can be one.
#[derive(Debug, Default)]
pub(crate) struct Branches {
    host: BranchingHost,
    runs: u32,
    successes: u32,
    failures: u32,
    /// Why recovery had to be run in another way, the last time.
    reason: String,
    /// The processor time after which a branch seems to hang, since the first start.
    patience: Option<Duration>,
}

/// A run has to start from the beginning.
#[derive(Debug, Default)]
pub(crate) struct RunAnew {
    /// Why. None if that is to check whether a new process does what copies do: all copies have drawn the same random numbers, and have
    /// the same addresses.
    pub reason: Option<String>,
    /// Whether a copy did something else than an earlier one that had read the same bytes.
    pub is_contradicted: bool,
}

impl RunAnew {
    pub(crate) fn because(reason: String) -> Self {
        Self {
            reason: Some(reason),
            is_contradicted: false,
        }
    }
}

impl Branches {
    /// Runs recovery on an image, unless it has to be run in another way.
    ///
    /// A branch that uses more processor time than `patience` seems to hang, unless one that did so was found not to.
    pub(crate) fn run(
        &mut self,
        like: &Sandbox,
        image: &[Option<Content>],
        (task, patience): (&RecoveryTask, Duration),
        wanted: &[ByteRanges],
        guide: &mut dyn ReadGuide,
    ) -> Result<BranchRun, RunAnew> {
        self.runs += 1;
        self.patience.get_or_insert(patience);
        if self.runs > 1 && self.runs.is_power_of_two() {
            return Err(RunAnew::default());
        }
        if self.failures >= MOST_FAILURES.max(self.successes) {
            self.host.close();
            return Err(RunAnew::because(self.reason.clone()));
        }
        let run = self.try_run(like, image, task, wanted, guide);
        if let Err(error) = &run {
            if !error.leaves_processes() {
                self.host.end_processes();
            }
            self.failures += 1;
            self.reason = error.to_string();
        }
        self.successes += u32::from(run.is_ok());
        run.map_err(|error| RunAnew {
            is_contradicted: matches!(error, BranchingError::Contradiction),
            ..RunAnew::because(error.to_string())
        })
    }

    /// From now on branches may use more processor time, but not more than this: one that seemed to hang does not.
    pub(crate) fn be_patient(&mut self, most: Duration) {
        self.patience = self
            .patience
            .map(|patience| patience.saturating_mul(MORE_PATIENCE).min(most));
        self.host.end_processes();
    }

    fn try_run(
        &mut self,
        like: &Sandbox,
        image: &[Option<Content>],
        task: &RecoveryTask,
        wanted: &[ByteRanges],
        guide: &mut dyn ReadGuide,
    ) -> Result<BranchRun, BranchingError> {
        let input = StartInput {
            like,
            start: common_start(image, task),
            image,
            differing: wanted,
            cpu_limit: self.patience.unwrap_or(CPU_LIMIT),
        };
        let new_tree = || Arc::new(Mutex::new(QuestionTree::with_room_for(usize::MAX)));
        match self.host.recovery(input, new_tree)? {
            Ok(recovery) => recovery.run(image, guide),
            // It is observed in another way.
            Err(_) => {
                let reason = "it reads nothing that differs".to_owned();
                Err(BranchingError::RunAnew(reason))
            }
        }
    }
}
