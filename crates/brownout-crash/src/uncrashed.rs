//! Recovery without any crash: what must pass before crashes can tell anything.

use std::time::Duration;

use crate::bench::{Attempt, Bench, BenchError, Circumstances};
use crate::image::CrashImage;
use crate::operation::Operation;

/// The shortest time limit of a recovery, and how many times longer than that of the uncrashed image it is.
const LEAST_LIMIT: Duration = Duration::from_secs(5);
const LIMIT_FACTOR: u32 = 10;
/// For the uncrashed image, of which nothing is known; one that takes longer gets several times as much.
const FIRST_LIMIT: Duration = Duration::from_secs(60);

/// How the uncrashed image fared.
#[derive(Clone, Debug)]
pub struct Uncrashed {
    pub attempt: Attempt,
    /// How long a recovery may take from now on.
    pub time_limit: Duration,
}

/// Runs recovery on the image that the finished program left. What fails there would fail without any crash.
pub fn try_uncrashed(
    bench: &mut Bench,
    image: &CrashImage,
    last_event: u64,
    operation: Option<Operation>,
    time_limit: Option<Duration>,
) -> Result<Uncrashed, BenchError> {
    let circumstances = Circumstances {
        event: last_event,
        operation,
        time_limit: time_limit.unwrap_or(FIRST_LIMIT),
    };
    let attempt = bench.attempt(image, &circumstances)?;
    let default_limit = (attempt.duration * LIMIT_FACTOR).max(LEAST_LIMIT);
    Ok(Uncrashed {
        time_limit: time_limit.unwrap_or(default_limit),
        attempt,
    })
}
