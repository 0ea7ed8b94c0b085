//! Runs recovery once more after crashes, to learn where it reads.

use std::ops::ControlFlow;
use std::time::Duration;

use brownout_model::Profile;
use brownout_recovery::{
    Attempt, ByteRanges, FirstRead, RawFrame, RecoveryLoad, RunnerPool, Verdict,
};
use brownout_trace::replay::Content;
use brownout_trace::{Definitions, FileId};

use crate::crash_point::CrashPoint;
use crate::error::CrashError;
use crate::image::{CrashImage, ImageBuilder};
use crate::operation::Operation;
use crate::persistent_files::PersistentFiles;
use crate::progress::{ProgressObserver, must_stop};
use crate::recorded_run::RecordedRun;
use crate::recovery_environment::CrashSituation;

/// A crash after which recovery is observed.
#[derive(Clone, Debug)]
pub struct ObservedCrash {
    pub point: CrashPoint,
    pub operation: Option<Operation>,
    pub time_limit: Duration,
}

impl ObservedCrash {
    fn situation(&self) -> CrashSituation {
        CrashSituation {
            event: self.point.event,
            operation: self.operation,
            time_limit: self.time_limit,
        }
    }
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

/// What a runner has observed.
pub type LoadsRun = (Attempt, Vec<RecoveryLoad>);

/// Says what of recoveries is observed, and takes what is.
pub trait LoadExaminer {
    /// The bytes of each persistent file that matter, given the file that has its path.
    fn wanted(&self, holders: &[Option<FileId>]) -> Vec<ByteRanges>;

    /// Whether recovery after the crash with this number has to be observed, after all that was observed before.
    fn needs(&self, _number: usize) -> bool {
        true
    }

    /// Takes what recovery after the crash with this number has read.
    fn take(&mut self, number: usize, observed: ObservedLoads);
}

/// Runs recovery after each crash, in the order of the trace and, before one event, in that of `crashes`. Returns whether nothing
/// stopped it.
pub fn observe_loads(
    run: &RecordedRun,
    (files, profile): (&PersistentFiles, Profile),
    crashes: &[ObservedCrash],
    examiner: &mut dyn LoadExaminer,
    pool: &mut RunnerPool<LoadsRun>,
    observer: &mut dyn ProgressObserver,
) -> Result<bool, CrashError> {
    let mut order: Vec<usize> = (0..crashes.len()).collect();
    order.sort_by_key(|&number| crashes[number].point.event);
    let mut order = order.into_iter().peekable();
    let mut builder = ImageBuilder::new(files, &run.selection).with_states(profile);
    let mut observation = LoadsObservation {
        crashes,
        examiner,
        pool,
        observer,
    };
    let mut result = Ok(true);
    let reader = run.walk(|event, definitions| {
        if must_stop(event.index, observation.observer) {
            result = Ok(false);
            return ControlFlow::Break(());
        }
        while let Some(number) =
            order.next_if(|&number| crashes[number].point.event <= event.index.0)
        {
            result = observation.observe(number, &mut builder, definitions);
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
            result = observation.observe(number, &mut builder, reader.definitions());
            if !matches!(result, Ok(true)) {
                break;
            }
        }
    }
    result
}

/// Observes one recovery after the other.
struct LoadsObservation<'o> {
    crashes: &'o [ObservedCrash],
    examiner: &'o mut dyn LoadExaminer,
    pool: &'o mut RunnerPool<LoadsRun>,
    observer: &'o mut dyn ProgressObserver,
}

impl LoadsObservation<'_> {
    /// Runs recovery after the crash with this number, if that is needed. Returns whether nothing stopped it.
    fn observe(
        &mut self,
        number: usize,
        builder: &mut ImageBuilder<'_>,
        definitions: &Definitions,
    ) -> Result<bool, CrashError> {
        if !self.examiner.needs(number) {
            return Ok(true);
        }
        if self.observer.stop() {
            return Ok(false);
        }
        let crash = &self.crashes[number];
        let image = match &crash.point.choice {
            Some(choice) => {
                let chosen = builder.chosen(choice, crash.point.event, definitions)?;
                chosen.image
            }
            None => builder.image(definitions),
        };
        let holders = builder.holders(definitions);
        let wanted = self.examiner.wanted(&holders);
        let (task, files) = (crash.situation().task(), image.files.clone());
        self.pool
            .submit(move |runner| runner.observe_loads(&files, &task, &wanted));
        let (attempt, loads) = loop {
            match self.pool.collect() {
                Some(result) => break result?,
                None if self.observer.stop() => return Ok(false),
                None => {}
            }
        };
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
        self.examiner.take(number, observed);
        Ok(true)
    }
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
