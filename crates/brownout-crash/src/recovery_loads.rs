//! Runs recovery once more after crashes, to learn where it reads.

use std::ops::ControlFlow;
use std::time::Duration;

use brownout_model::Profile;
use brownout_recovery::{ByteRanges, FirstRead, RawFrame, RecoveryRunner, Verdict};
use brownout_trace::replay::Content;
use brownout_trace::{Definitions, FileId};

use crate::crash_point::CrashPoint;
use crate::error::CrashError;
use crate::image::{CrashImage, ImageBuilder};
use crate::operation::Operation;
use crate::persistent_files::PersistentFiles;
use crate::progress::ProgressObserver;
use crate::recorded_run::RecordedRun;
use crate::recovery_environment::CrashSituation;

/// A crash after which recovery is observed.
#[derive(Clone, Debug)]
pub struct ObservedCrash {
    pub point: CrashPoint,
    pub operation: Option<Operation>,
    pub time_limit: Duration,
}

/// What a recovery has read, in order.
pub struct ObservedLoads {
    pub verdict: Verdict,
    pub loads: Vec<ObservedLoad>,
    /// The file that has each path.
    pub holders: Vec<Option<FileId>>,
}

/// Bytes that a recovery has read for the first time.
pub struct ObservedLoad {
    pub read: FirstRead,
    pub bytes: Vec<u8>,
    /// The calls that led there, innermost first; empty if it was not a load.
    pub stack: Vec<RawFrame>,
}

impl ObservedLoads {
    /// The reads with their bytes.
    pub fn reads(&self) -> impl Iterator<Item = (FirstRead, &[u8])> {
        self.loads.iter().map(|load| (load.read, &load.bytes[..]))
    }
}

/// Runs recovery after each crash, in the order of the trace, and hands what it reads to `take` with the number of the crash.
/// `wanted` says which bytes matter, given the file that has each path. Returns whether nothing stopped it.
pub fn observe_loads(
    run: &RecordedRun,
    (files, profile): (&PersistentFiles, Profile),
    crashes: &[ObservedCrash],
    wanted: impl Fn(&[Option<FileId>]) -> Vec<ByteRanges>,
    runner: &mut RecoveryRunner,
    observer: &mut dyn ProgressObserver,
    mut take: impl FnMut(usize, ObservedLoads),
) -> Result<bool, CrashError> {
    let mut order: Vec<usize> = (0..crashes.len()).collect();
    order.sort_by(|&a, &b| crashes[a].point.cmp(&crashes[b].point));
    let mut order = order.into_iter().peekable();
    let mut builder = ImageBuilder::new(files, &run.selection).with_states(profile);
    let mut result = Ok(true);
    let mut observe_next = |number: usize,
                            builder: &mut ImageBuilder<'_>,
                            definitions: &Definitions| {
        if observer.stop() {
            return Ok(false);
        }
        let crash = &crashes[number];
        let image = match &crash.point.choice {
            Some(choice) => {
                builder
                    .chosen(choice, crash.point.event, definitions)?
                    .image
            }
            None => builder.image(definitions),
        };
        let holders = builder.holders(definitions);
        let situation = CrashSituation {
            event: crash.point.event,
            operation: crash.operation,
            time_limit: crash.time_limit,
        };
        let wanted = wanted(&holders);
        let (attempt, loads) = runner.observe_loads(&image.files, &situation.task(), &wanted)?;
        let loads = loads.into_iter().map(|load| ObservedLoad {
            bytes: bytes_of(&image, load.read),
            read: load.read,
            stack: load.stack,
        });
        let observed = ObservedLoads {
            verdict: attempt.verdict,
            loads: loads.collect(),
            holders,
        };
        take(number, observed);
        Ok(true)
    };
    let reader = run.walk(|event, definitions| {
        while let Some(number) =
            order.next_if(|&number| crashes[number].point.event <= event.index.0)
        {
            result = observe_next(number, &mut builder, definitions);
            if !matches!(result, Ok(true)) {
                return ControlFlow::Break(());
            }
        }
        builder.apply(event, definitions);
        match order.peek() {
            Some(_) => ControlFlow::Continue(()),
            None => ControlFlow::Break(()),
        }
    })?;
    if matches!(result, Ok(true)) {
        // At the end of the trace.
        for number in order {
            result = observe_next(number, &mut builder, reader.definitions());
            if !matches!(result, Ok(true)) {
                break;
            }
        }
    }
    result
}

/// The bytes of a read that are in the file.
fn bytes_of(image: &CrashImage, read: FirstRead) -> Vec<u8> {
    let content = image.files.get(read.file).and_then(Option::as_ref);
    let len = content.map_or(0, Content::len);
    let left = len.saturating_sub(read.offset).min(read.len);
    let mut bytes = vec![0; left as usize];
    if let Some(content) = content {
        content.read(read.offset, &mut bytes);
    }
    bytes
}
