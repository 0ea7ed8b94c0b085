//! Starts the sandboxes in which recoveries run.

use brownout_crash::{CrashError, Survey};
use brownout_recovery::{Isolation, RecoveryRunner, Sandbox, SandboxServerCommand};

use super::plan::Plan;
use crate::arguments::SERVE_SANDBOX;
use crate::console::Console;
use crate::failure::Failure;

/// A runner for each recovery that may run at the same time.
pub fn open_runners(
    plan: &Plan,
    survey: &Survey,
    console: &Console,
) -> Result<Vec<RecoveryRunner>, Failure> {
    let server = SandboxServerCommand::this_executable(SERVE_SANDBOX);
    let mut runners = Vec::new();
    for _ in 0..plan.jobs {
        let sandbox = Sandbox::start(&server, &plan.recovery, survey.files.paths())
            .map_err(CrashError::from)?;
        if runners.is_empty() {
            report_isolation(&sandbox, console);
        }
        runners.push(RecoveryRunner::new(
            sandbox,
            plan.recovery.clone(),
            plan.expected.clone(),
        ));
    }
    Ok(runners)
}

fn report_isolation(sandbox: &Sandbox, console: &Console) {
    match sandbox.isolation() {
        Isolation::Layered => {}
        Isolation::ReadOnly => console.remark(
            "recovery can only write to the directories of the persistent files and to TMPDIR: \
             this machine does not allow overlay file systems in namespaces",
        ),
        Isolation::Directory => console.warn(
            "recovery runs on copies of the persistent files at the paths that {pm} stands for, and is not isolated otherwise: \
             this machine does not allow namespaces",
        ),
    }
}
