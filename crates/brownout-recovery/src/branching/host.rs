//! Branching recoveries, each of which is started when it is first wanted. Some are kept: images with different starts take turns, as those
//! of crashes inside different operations do.

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

/// Branching recoveries that are kept at the same time.
const MOST_STARTS: usize = 4;

/// The branching recoveries of a runner.
#[derive(Debug, Default)]
pub(crate) struct BranchingHost {
    /// One for each start, the one that was used last at the end.
    recoveries: Vec<BranchingRecovery>,
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
        let mut known = self.recoveries.iter();
        let recovery = match known.position(|known| *known.common_start() == input.start) {
            Some(at) => self.recoveries.remove(at),
            None => {
                if self.recoveries.len() == MOST_STARTS {
                    self.sandbox = Some(self.recoveries.remove(0).into_sandbox()?);
                }
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
                    Started::Waits(recovery) => *recovery,
                    Started::Ended(outcome) => return Ok(Err(outcome)),
                }
            }
        };
        self.recoveries.push(recovery);
        let count = self.recoveries.len();
        let last = self.recoveries.last_mut();
        let recovery = last.expect("one was added");
        recovery.share_room(count);
        Ok(Ok(recovery))
    }

    /// Ends all processes.
    pub(crate) fn end_processes(&mut self) {
        self.recoveries.clear();
    }

    /// Ends all processes and the sandbox.
    pub(crate) fn close(&mut self) {
        *self = Self::default();
    }
}
