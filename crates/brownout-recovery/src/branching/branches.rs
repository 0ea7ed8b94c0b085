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

/// A branching recovery, if there can be one.
#[derive(Debug)]
pub(crate) struct Branches {
    host: BranchingHost,
    runs: u32,
    successes: u32,
    failures: u32,
    /// Why recovery had to be run in another way, the last time.
    reason: String,
    cpu_limit: Duration,
}

impl Default for Branches {
    fn default() -> Self {
        Self {
            host: BranchingHost::default(),
            runs: 0,
            successes: 0,
            failures: 0,
            reason: String::new(),
            cpu_limit: CPU_LIMIT,
        }
    }
}

impl Branches {
    /// Runs recovery on an image. If it has to be run in another way, the reason; none if that is to check whether a new process
    /// does what copies do: all copies have drawn the same random numbers, and have the same addresses.
    pub(crate) fn run(
        &mut self,
        like: &Sandbox,
        image: &[Option<Content>],
        task: &RecoveryTask,
        wanted: &[ByteRanges],
        guide: &mut dyn ReadGuide,
    ) -> Result<BranchRun, Option<String>> {
        self.runs += 1;
        if self.runs > 1 && self.runs.is_power_of_two() {
            return Err(None);
        }
        if self.failures >= MOST_FAILURES.max(self.successes) {
            self.host.close();
            return Err(Some(self.reason.clone()));
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
        run.map_err(|error| Some(error.to_string()))
    }

    /// From now on branches may use so much processor time: one that seemed to hang does not.
    pub(crate) fn allow_time(&mut self, cpu_limit: Duration) {
        self.cpu_limit = cpu_limit;
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
            cpu_limit: self.cpu_limit,
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
