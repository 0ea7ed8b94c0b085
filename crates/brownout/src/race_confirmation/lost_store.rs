//! The crash after a race was forced: exactly what the held thread had stored is lost, and recovery runs on what is left.

use brownout_crash::{
    CrashError, CrashImage, CrashPoint, CrashSituation, PersistentFiles, RecordedRun, Token,
};
use brownout_race::{ForcedRead, ReaderAct};
use brownout_recovery::{Attempt, RecoveryRunner, Sandbox};
use brownout_trace::EventIndex;
use std::time::Duration;

use super::Confirmation;
use crate::console::Console;
use crate::crash_test::{CrashTestMonitor, Plan};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::trace_file::TraceFile;

/// The time limit of recovery if the user gave none.
const RECOVERY_LIMIT: Duration = Duration::from_secs(30);

/// What the crash has shown.
pub struct ForcedCrash {
    /// What recovery did, if it was run.
    pub verdict: Option<ForcedVerdict>,
    /// What repeats the crash, if its trace is kept.
    pub token: Option<String>,
    /// Which stores the image lacks.
    pub state: String,
}

/// How recovery ended.
pub enum ForcedVerdict {
    Passed,
    /// It passes if the store is not lost.
    Failed(Box<Attempt>),
    /// It also fails if the store is not lost.
    FailsAnyway,
    /// Why it was not run.
    NotRun(String),
}

/// Crashes when the reader has acted, and at the last instant at which the store can be lost, when most depends on it. The first crash
/// after which recovery fails counts, or else the first one; `None` if no crash loses the store.
pub fn crash(
    mut trace: TraceFile,
    read: &ForcedRead,
    act: ReaderAct,
    (settings, how): (&Settings, &Confirmation<'_>),
    console: &Console,
) -> Result<Option<ForcedCrash>, Failure> {
    trace.rewind()?;
    let selection = trace.select(&settings.patterns, console)?;
    let run = RecordedRun::new(trace.path(), selection);
    let files = run.files(&mut CrashTestMonitor::new(None, console))?;
    let acted = act.time().0 + 1;
    let last = read.until.map_or(trace.events(), |until| until.0);
    let mut first = None;
    let instants = [Some(acted), Some(last).filter(|last| *last > acted)];
    for event in instants.into_iter().flatten() {
        let lost = Crash {
            trace: &trace,
            run: &run,
            files: &files,
            event: EventIndex(event),
        };
        let Some(lost) = lost.try_out(read, settings, how, console)? else {
            continue;
        };
        match &lost.verdict {
            Some(ForcedVerdict::Failed(_)) => return Ok(Some(lost)),
            Some(ForcedVerdict::Passed | ForcedVerdict::FailsAnyway) => {
                first.get_or_insert(lost);
            }
            _ => return Ok(Some(lost)),
        }
    }
    Ok(first)
}

/// A crash of a run in which a race was forced.
struct Crash<'a> {
    trace: &'a TraceFile,
    run: &'a RecordedRun,
    files: &'a PersistentFiles,
    /// The crash is before this event.
    event: EventIndex,
}

impl Crash<'_> {
    /// Loses the store, and runs recovery if there is one; `None` if no crash loses it here.
    fn try_out(
        &self,
        read: &ForcedRead,
        settings: &Settings,
        how: &Confirmation<'_>,
        console: &Console,
    ) -> Result<Option<ForcedCrash>, Failure> {
        let mut monitor = CrashTestMonitor::new(None, console);
        let store = (EventIndex(read.store.0), read.range);
        let (run, files) = (self.run, self.files);
        let point = run.crash_losing(self.event, store, settings.model, files, &mut monitor)?;
        let Some(point) = point else {
            return Ok(None);
        };
        let state = point.choice.as_ref().map(|choice| choice.describe());
        let mut lost = ForcedCrash {
            verdict: None,
            token: None,
            state: state.unwrap_or_default(),
        };
        let Some(plan) = how.plan else {
            return Ok(Some(lost));
        };
        if how.directory.is_some() {
            let time_limit = plan.recovery_time_limit;
            let token = Token {
                point: point.clone(),
                recovery: plan.recovery.clone(),
                operation: None,
                patterns: settings.pattern_texts(),
                time_limit: time_limit.map(|limit| limit.as_millis() as u64),
                expected: plan.expected_digest(),
                trace: self.trace.identity(),
            };
            lost.token = Some(token.to_string());
        }
        let image = run.image_at(&point, files, &mut monitor)?;
        let in_order = CrashPoint::program_order(self.event.0);
        let control = run.image_at(&in_order, files, &mut monitor)?;
        drop(monitor);
        lost.verdict = Some(recover(plan, (&image, &control), self.event, files, how)?);
        Ok(Some(lost))
    }
}

fn recover(
    plan: &Plan,
    (image, control): (&CrashImage, &CrashImage),
    event: EventIndex,
    files: &PersistentFiles,
    how: &Confirmation<'_>,
) -> Result<ForcedVerdict, Failure> {
    if plan.counts_operations() {
        let why = "what recovery has to print depends on the operations of the recorded run";
        return Ok(ForcedVerdict::NotRun(why.to_owned()));
    }
    let sandbox = Sandbox::start(&how.server(), &plan.recovery, files.paths());
    let sandbox = sandbox.map_err(CrashError::from)?;
    let mut runner = RecoveryRunner::new(sandbox, plan.recovery.clone(), plan.expected.clone());
    let situation = CrashSituation {
        event: event.0,
        operation: None,
        time_limit: plan.recovery_time_limit.unwrap_or(RECOVERY_LIMIT),
    };
    let mut attempt = |image: &CrashImage| {
        let attempt = runner.attempt(&image.files, &situation.task());
        attempt.map_err(CrashError::from)
    };
    let with_loss = attempt(image)?;
    if with_loss.verdict.passed() {
        return Ok(ForcedVerdict::Passed);
    }
    Ok(match attempt(control)?.verdict.passed() {
        true => ForcedVerdict::Failed(Box::new(with_loss)),
        false => ForcedVerdict::FailsAnyway,
    })
}
