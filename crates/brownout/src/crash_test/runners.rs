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
    let mut runners = Vec::new();
    for _ in 0..plan.jobs {
        let runner = open_runner(plan, survey)?;
        if runners.is_empty() {
            report_isolation(runner.isolation(), console);
        }
        runners.push(runner);
    }
    Ok(runners)
}

pub fn open_runner(plan: &Plan, survey: &Survey) -> Result<RecoveryRunner, Failure> {
    let server = SandboxServerCommand::this_executable(SERVE_SANDBOX);
    let (recovery, expected) = (plan.recovery.clone(), plan.expected.clone());
    let sandbox = Sandbox::start(&server, &recovery, survey.files.paths());
    let sandbox = sandbox.map_err(CrashError::from)?;
    Ok(RecoveryRunner::new(sandbox, recovery, expected))
}

fn report_isolation(isolation: Isolation, console: &Console) {
    match isolation {
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
