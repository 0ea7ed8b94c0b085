//! Recovery on the files that the target left, without any crash: it must pass there before crashes can be tested.

use brownout_crash::{
    CrashError, CrashImage, ObservedReads, Operation, RecordedRun, Survey, UncrashedRecovery,
    recover_without_crash,
};
use brownout_recovery::{Orphans, RecoveryRunner};

use super::monitor::CrashTestMonitor;
use super::plan::Plan;
use crate::failure::Failure;

/// Runs recovery on the files as they are after the last of `events`. Also returns these files.
pub fn recover_uncrashed(
    run: &RecordedRun,
    survey: &Survey,
    runner: &mut RecoveryRunner,
    (events, operation): (u64, Option<Operation>),
    plan: &Plan,
    monitor: &mut CrashTestMonitor,
) -> Result<(UncrashedRecovery, CrashImage), Failure> {
    let (image, _) = run.image_before(None, &survey.files, monitor)?;
    monitor.begin_uncrashed();
    let limit = plan.recovery_time_limit;
    let uncrashed = recover_without_crash(runner, &image, events, operation, limit);
    Ok((uncrashed.map_err(CrashError::from)?, image))
}

/// Why the verdicts of a recovery that leaves processes behind do not decide. Natively a process may be too fast to be noticed, and
/// under the engine, recovery may not run.
pub fn describe_left_processes(
    uncrashed: &UncrashedRecovery,
    observed: &ObservedReads,
) -> Option<String> {
    let are_observed = matches!(observed, ObservedReads::Known(reads) if reads.left_processes);
    (uncrashed.orphans == Orphans::Left || are_observed).then(|| {
        "recovery leaves processes behind when its first process has ended, and what they do is not tested: let it wait for \
         them, or use --client if they serve one"
            .to_owned()
    })
}

/// Why crashes cannot be tested with this recovery.
pub fn describe_uncrashed(uncrashed: &UncrashedRecovery, plan: &Plan) -> String {
    let attempt = &uncrashed.attempt;
    let mut text = format!(
        "recovery {} on the files that the program left, without any crash; it must pass there before crashes can be tested: {}",
        attempt.verdict, plan.recovery.command
    );
    for line in &attempt.output {
        text.push_str("\n  | ");
        text.push_str(line);
    }
    text
}
