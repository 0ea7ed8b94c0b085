//! A branching recovery that is started when it is first wanted, and again for images with another start.

use std::time::Duration;

use brownout_trace::replay::Content;

use super::messages::BranchOutcome;
use super::{BranchingError, BranchingRecovery, CommonStart, SharedTree, Started};
use crate::{ByteRanges, RecoveryTask, Sandbox};

/// Says when power failed, which is another time for each image: recovery must not depend on it.
pub(crate) const EVENT: &str = "BROWNOUT_EVENT";

/// The processor time of a process after which it seems to hang, until one has needed more.
pub(crate) const CPU_LIMIT: Duration = Duration::from_secs(2);

/// What recoveries on this image have in common.
pub(crate) fn common_start(image: &[Option<Content>], task: &RecoveryTask) -> CommonStart {
    let environment = task.environment.iter();
    CommonStart {
        lengths: image
            .iter()
            .map(|content| content.as_ref().map(Content::len))
            .collect(),
        environment: environment
            .filter(|(name, _)| name != EVENT)
            .cloned()
            .collect(),
    }
}

/// The branching recovery of a runner.
#[derive(Debug, Default)]
pub(crate) struct BranchingHost {
    recovery: Option<Box<BranchingRecovery>>,
    /// For the next branching recovery.
    sandbox: Option<Sandbox>,
}

/// What a branching recovery needs to be started.
pub(crate) struct StartInput<'a> {
    /// How its sandbox is to be.
    pub like: &'a Sandbox,
    pub start: CommonStart,
    pub image: &'a [Option<Content>],
    /// The bytes of each persistent file that differ between images.
    pub differing: &'a [ByteRanges],
    pub cpu_limit: Duration,
}

impl BranchingHost {
    /// The recovery with this start, or its outcome if it reads nothing that differs. `tree` is asked for what is known about it if it has
    /// to be started.
    pub(crate) fn recovery(
        &mut self,
        input: StartInput<'_>,
        tree: impl FnOnce() -> SharedTree,
    ) -> Result<Result<&mut BranchingRecovery, BranchOutcome>, BranchingError> {
        if let Some(other) = self
            .recovery
            .take_if(|recovery| *recovery.common_start() != input.start)
        {
            self.sandbox = Some(other.into_sandbox()?);
        }
        let recovery = match &mut self.recovery {
            Some(recovery) => recovery,
            none => {
                let sandbox = match self.sandbox.take() {
                    Some(sandbox) => sandbox,
                    None => input.like.another()?,
                };
                let started = BranchingRecovery::start(
                    sandbox,
                    input.start,
                    input.image,
                    input.differing,
                    input.cpu_limit,
                    tree(),
                )?;
                match started {
                    Started::Waits(recovery) => none.insert(recovery),
                    Started::Ended(outcome) => return Ok(Err(outcome)),
                }
            }
        };
        Ok(Ok(recovery))
    }

    /// Ends all processes.
    pub(crate) fn end_processes(&mut self) {
        self.recovery = None;
    }

    /// Ends all processes and the sandbox.
    pub(crate) fn close(&mut self) {
        *self = Self::default();
    }
}
