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
pub struct LostStore {
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
    Failed(Attempt),
    /// It also fails if the store is not lost.
    FailsAnyway,
    /// Why it was not run.
    NotRun(String),
}

/// Crashes at the instant at which the reader had acted; `None` if no crash loses the store there.
pub fn crash(
    mut trace: TraceFile,
    read: &ForcedRead,
    act: ReaderAct,
    (settings, how): (&Settings, &Confirmation<'_>),
    console: &Console,
) -> Result<Option<LostStore>, Failure> {
    trace.rewind()?;
    let selection = trace.select(&settings.patterns, console)?;
    let run = RecordedRun::new(trace.path(), selection);
    let mut monitor = CrashTestMonitor::new(None, console);
    let files = run.files(&mut monitor)?;
    let event = EventIndex(act.time().0 + 1);
    let store = (EventIndex(read.store.0), read.range);
    let Some(point) = run.crash_losing(event, store, settings.model, &files, &mut monitor)? else {
        return Ok(None);
    };
    let state = point.choice.as_ref().map(|choice| choice.describe());
    let mut lost = LostStore {
        verdict: None,
        token: None,
        state: state.unwrap_or_default(),
    };
    let Some(plan) = how.plan else {
        return Ok(Some(lost));
    };
    if how.directory.is_some() {
        let token = Token {
            point: point.clone(),
            recovery: plan.recovery.clone(),
            operation: None,
            patterns: settings.pattern_texts(),
            time_limit: plan
                .recovery_time_limit
                .map(|limit| limit.as_millis() as u64),
            expected: plan.expected_digest(),
            trace: trace.identity(),
        };
        lost.token = Some(token.to_string());
    }
    let image = run.image_at(&point, &files, &mut monitor)?;
    let in_order = CrashPoint::program_order(event.0);
    let control = run.image_at(&in_order, &files, &mut monitor)?;
    drop(monitor);
    lost.verdict = Some(recover(plan, (&image, &control), event, &files, how)?);
    Ok(Some(lost))
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
        true => ForcedVerdict::Failed(with_loss),
        false => ForcedVerdict::FailsAnyway,
    })
}
