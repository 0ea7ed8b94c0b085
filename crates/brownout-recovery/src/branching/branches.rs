//! The branching recovery of a runner: started when it is first wanted, started again for images with another start, and given
//! up if recovery cannot be run in this way.

use std::time::Duration;

use brownout_trace::replay::Content;

use super::{BranchRun, BranchingError, BranchingRecovery, CommonStart, ReadGuide};
use crate::{ByteRanges, RecoveryTask, Sandbox};

/// Says when power failed, which is another time for each image: recovery must not depend on it.
const EVENT: &str = "BROWNOUT_EVENT";
/// A recovery that has to be run anew so often, and more often than not, is always run anew.
const MOST_FAILURES: u32 = 4;

/// The processor time of a branch after which it seems to hang, until one has needed more.
const CPU_LIMIT: Duration = Duration::from_secs(2);

/// A branching recovery, if there can be one.
#[derive(Debug)]
pub(crate) struct Branches {
    recovery: Option<BranchingRecovery>,
    /// For the next branching recovery.
    sandbox: Option<Sandbox>,
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
            recovery: None,
            sandbox: None,
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
            self.recovery = None;
            self.sandbox = None;
            return Err(Some(self.reason.clone()));
        }
        let run = self.try_run(like, image, task, wanted, guide);
        if let Err(error) = &run {
            // Whatever else has happened to the host, recovery can be run without it.
            if !matches!(error, BranchingError::RunAnew(_)) {
                self.recovery = None;
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
        self.recovery = None;
    }

    fn try_run(
        &mut self,
        like: &Sandbox,
        image: &[Option<Content>],
        task: &RecoveryTask,
        wanted: &[ByteRanges],
        guide: &mut dyn ReadGuide,
    ) -> Result<BranchRun, BranchingError> {
        let environment = task.environment.iter();
        let start = CommonStart {
            lengths: image
                .iter()
                .map(|content| content.as_ref().map(Content::len))
                .collect(),
            environment: environment
                .filter(|(name, _)| name != EVENT)
                .cloned()
                .collect(),
        };
        if let Some(other) = self
            .recovery
            .take_if(|recovery| *recovery.common_start() != start)
        {
            self.sandbox = Some(other.into_sandbox()?);
        }
        let recovery = match &mut self.recovery {
            Some(recovery) => recovery,
            none => {
                let sandbox = match self.sandbox.take() {
                    Some(sandbox) => sandbox,
                    None => like.another()?,
                };
                let new = BranchingRecovery::start(sandbox, start, image, wanted, self.cpu_limit)?;
                none.insert(new)
            }
        };
        recovery.run(image, guide)
    }
}
