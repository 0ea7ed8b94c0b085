//! What recovery opens and reads of the persistent files, observed in one run under the engine, without a crash. Further runs,
//! after a crash, can add to it.
//!
//! Can miss: what recovery reads only after other crashes. So nothing is left out because of it; it decides the order in
//! which suspects are tried and findings are shown, and whether recovery uses the files at all.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use brownout_recovery::{Attempt, ByteRanges, RecoveryReads, RecoveryRunner, RunnerError};
use brownout_trace::{Address, EventKind};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::error::CrashError;
use crate::failure_point::Occurrence;
use crate::image::CrashImage;
use crate::operation::Operation;
use crate::recorded_run::RecordedRun;
use crate::recovery_environment::CrashSituation;
use crate::suspect::{Suspect, SuspectSite, Suspicion};

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

/// For each suspect, whether recovery reads bytes that its stores write; `None` if that is not known.
pub fn read_by_recovery(
    suspects: &[Suspect],
    run: &RecordedRun,
    observed: &ObservedReads,
) -> Result<Vec<Option<bool>>, CrashError> {
    let ObservedReads::Known(reads) = observed else {
        return Ok(vec![None; suspects.len()]);
    };
    // A file that recovery does not use shows nothing about its bytes.
    let opened = reads.files.iter().filter(|file| file.opened);
    let files: HashMap<&Path, &ByteRanges> = opened
        .map(|file| (file.path.as_path(), &file.ranges))
        .collect();
    let mut by_store: FxHashMap<SuspectSite, Vec<usize>> = FxHashMap::default();
    for (number, suspect) in suspects.iter().enumerate() {
        if let Suspicion::LostStore { stores, .. } = &suspect.suspicion {
            for store in stores {
                by_store.entry(store.site).or_default().push(number);
            }
        }
    }
    let mut follower = Follower {
        files,
        read: vec![Known::Nothing; suspects.len()],
    };
    if !by_store.is_empty() {
        run.walk(|event, definitions| {
            let (EventKind::Store { addr, bytes, .. } | EventKind::KernelWrite { addr, bytes, .. }) =
                event.kind
            else {
                return ControlFlow::<()>::Continue(());
            };
            if let Some(suspects) = by_store.get(&SuspectSite::of(event))
                && let Some(process) = definitions.process(event.process)
            {
                let mut at = addr.0;
                let end = addr.0.saturating_add(bytes.len() as u64);
                let space = process.address_space();
                while at < end
                    && let Some(range) = space.resolve(Address(at), end - at)
                    && range.len > 0
                {
                    let path = definitions.file(range.file).map(|file| file.path.as_path());
                    follower.stored(suspects, path, range.offset, range.len);
                    at += range.len;
                }
            }
            ControlFlow::Continue(())
        })?;
    }
    // What may have been read without being seen is not known to be unread.
    let is_complete = reads.gaps.is_empty();
    let read = follower.read.into_iter().map(|known| match known {
        Known::Read => Some(true),
        Known::Unread => is_complete.then_some(false),
        Known::Nothing => None,
    });
    Ok(read.collect())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// No store was seen.
    Nothing,
    Unread,
    Read,
}

struct Follower<'a> {
    files: HashMap<&'a Path, &'a ByteRanges>,
    read: Vec<Known>,
}

impl Follower<'_> {
    /// Suspects store to a range of a file.
    fn stored(&mut self, suspects: &[usize], path: Option<&Path>, offset: u64, len: u64) {
        let Some(ranges) = path.and_then(|path| self.files.get(path)) else {
            return;
        };
        let is_read = ranges.overlaps(offset..offset.saturating_add(len));
        for &number in suspects {
            let known = &mut self.read[number];
            if is_read {
                *known = Known::Read;
            } else if *known == Known::Nothing {
                *known = Known::Unread;
            }
        }
    }
}
