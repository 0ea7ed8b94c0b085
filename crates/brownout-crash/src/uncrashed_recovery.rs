//! Recovery without any crash: it must pass before its verdicts on crash images mean anything.

use std::time::Duration;

use brownout_recovery::{Attempt, Orphans, RecoveryRunner, RunnerError};

use crate::image::CrashImage;
use crate::operation::Operation;
use crate::recovery_environment::CrashSituation;

/// The time limit of a recovery is this many times what the recovery without a crash took, and at least
/// [`LEAST_LIMIT`].
const LIMIT_FACTOR: u32 = 10;
const LEAST_LIMIT: Duration = Duration::from_secs(5);
/// The time limit of the recovery without a crash.
const UNCRASHED_LIMIT: Duration = Duration::from_secs(60);

/// How recovery ended on the files that the finished target left.
#[derive(Clone, Debug)]
pub struct UncrashedRecovery {
    pub attempt: Attempt,
    /// How long recovery may take on crash images.
    pub time_limit: Duration,
    /// Whether recovery leaves processes behind when its first process has ended.
    pub orphans: Orphans,
}

/// Runs recovery on the image that the finished target left. If it fails there, crashes are not the reason.
pub fn recover_without_crash(
    runner: &mut RecoveryRunner,
    image: &CrashImage,
    last_event: u64,
    operation: Option<Operation>,
    time_limit: Option<Duration>,
) -> Result<UncrashedRecovery, RunnerError> {
    let situation = CrashSituation {
        event: last_event,
        operation,
        time_limit: time_limit.unwrap_or(UNCRASHED_LIMIT),
    };
    let (attempt, orphans) = runner.attempt_without_crash(&image.files, &situation.task())?;
    let default_limit = (attempt.duration * LIMIT_FACTOR).max(LEAST_LIMIT);
    Ok(UncrashedRecovery {
        time_limit: time_limit.unwrap_or(default_limit),
        attempt,
        orphans,
    })
}
