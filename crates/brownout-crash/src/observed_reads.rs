//! What recovery opens and reads of the persistent files, observed in one run under the engine, without a crash. Further runs,
//! after a crash, can add to it.
//!
//! Can miss: what recovery reads only after other crashes. So nothing is left out because of it; it decides the order in
//! which suspects are tried and findings are shown, and whether recovery uses the files at all.

use std::time::Duration;

use brownout_recovery::{Attempt, RecoveryReads, RecoveryRunner, RunnerError};
use serde::{Deserialize, Serialize};

use crate::failure_point::Occurrence;
use crate::image::CrashImage;
use crate::operation::Operation;
use crate::recovery_environment::CrashSituation;

/// Under the engine, recovery may take this many times as long as natively, within these limits.
const LIMIT_FACTOR: u32 = 50;
const LEAST_LIMIT: Duration = Duration::from_secs(20);
const GREATEST_LIMIT: Duration = Duration::from_secs(60);

/// What is known about the reads of recovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObservedReads {
    Known(RecoveryReads),
    /// Why nothing is known, in a sentence.
    Unknown(String),
}

/// Runs recovery under the engine on the image that the finished target left. Natively it has passed there, in `native`
/// time. The runner may be unusable afterwards.
pub fn observe_reads(
    runner: &mut RecoveryRunner,
    image: &CrashImage,
    last_event: u64,
    operation: Option<Operation>,
    native: Duration,
) -> ObservedReads {
    match observe(runner, image, last_event, operation, native) {
        Err(error) => ObservedReads::Unknown(format!(
            "recovery cannot be observed: {}",
            with_causes(&error)
        )),
        Ok((attempt, _)) if !attempt.verdict.passed() => ObservedReads::Unknown(format!(
            "recovery passes without a crash, but {} when it is observed",
            attempt.verdict
        )),
        Ok((_, Some(reads))) => ObservedReads::Known(reads),
        Ok((_, None)) => {
            ObservedReads::Unknown("recovery ended before its reads were reported".to_owned())
        }
    }
}

/// Adds what recovery reads after a crash, whether it copes with it or not. The runner may be unusable afterwards.
pub fn observe_reads_after(
    reads: &mut RecoveryReads,
    runner: &mut RecoveryRunner,
    image: &CrashImage,
    crash: Occurrence,
    operation: Option<Operation>,
    native: Duration,
) {
    match observe(runner, image, crash.event.0, operation, native) {
        Ok((_, Some(more))) => reads.unite(more),
        _ => {
            let unobserved = "recovery after a crash cannot be observed";
            reads.gaps.push(unobserved.to_owned());
        }
    }
}

fn observe(
    runner: &mut RecoveryRunner,
    image: &CrashImage,
    event: u64,
    operation: Option<Operation>,
    native: Duration,
) -> Result<(Attempt, Option<RecoveryReads>), RunnerError> {
    let situation = CrashSituation {
        event,
        operation,
        time_limit: (native * LIMIT_FACTOR).clamp(LEAST_LIMIT, GREATEST_LIMIT),
    };
    runner.observe_reads(&image.files, &situation.task())
}

fn with_causes(error: &RunnerError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
