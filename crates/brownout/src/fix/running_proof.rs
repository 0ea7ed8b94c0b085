//! The proof by the running program: the unmodified program is recorded and checked again, while flushes and fences are executed
//! where the repairs would add them.
//!
//! It shows more than the trace: what the program does while they are executed, and what a flush costs that also meets other memory. It
//! does not show that the edited source computes the right addresses.
//!
//! Can miss: programs that do something else when they run again, because of the time, the network or their standard input, which is
//! empty. Then nothing is shown, and that is said.

use std::path::Path;
use std::time::Duration;

use brownout_engine::{PatchCounts, PatchPlan};
use brownout_report::{Finding, Report};

use super::private_check::{CheckedAgain, CheckedRun, PrivateCheck};
use crate::console::Console;
use crate::failure::Failure;
use crate::patch_file::write_plan;
use crate::settings::Settings;

/// How long the program may run and be checked.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// What the program is run and checked with.
pub struct RunningProof<'a> {
    pub results: &'a Path,
    pub report: &'a Report,
    pub settings: &'a Settings,
}

/// What the running program has shown.
pub enum RunningProgram {
    /// Its findings, and how often each patch was carried out.
    Checked(Vec<Finding>, PatchCounts),
    /// Why it could not be run again.
    NotRun(String),
}

impl RunningProof<'_> {
    /// Runs the program with the operations of a plan, and checks it.
    pub fn run(
        &self,
        plan: &PatchPlan,
        trace: &Path,
        console: &Console,
    ) -> Result<RunningProgram, Failure> {
        let not_run = |why: &str| Ok(RunningProgram::NotRun(why.to_owned()));
        if plan.is_too_large() {
            return not_run("the repairs concern too many instructions");
        }
        let work = tempfile::tempdir().map_err(Failure::FixDirectory)?;
        let path = work.path().join("patch.plan");
        write_plan(plan, &path)?;
        console.remark("running the program again with the added flushes and fences");
        let check = PrivateCheck {
            results: self.results,
            report: self.report,
            settings: self.settings,
            directory: None,
            time_limit: TIME_LIMIT,
            on_timeout: "it took more than 10 minutes",
            preparation: String::new(),
            plan: Some(path),
        };
        Ok(match check.run(trace, work.path(), console) {
            Ok(CheckedAgain::Checked(_, CheckedRun::Patched(counts))) if counts.unknown > 0 => {
                RunningProgram::NotRun(
                    "it is not known where one of its instructions stores before it is executed"
                        .to_owned(),
                )
            }
            Ok(CheckedAgain::Checked(findings, CheckedRun::Patched(counts))) => {
                RunningProgram::Checked(findings, counts)
            }
            Ok(CheckedAgain::Checked(_, CheckedRun::Rebuilt(_))) => RunningProgram::NotRun(
                "it is not known what was added to the program".to_owned(),
            ),
            Ok(CheckedAgain::Failed(why, _)) => RunningProgram::NotRun(why),
            Ok(CheckedAgain::TargetFailed(_)) => {
                RunningProgram::NotRun("the program failed when it was run again".to_owned())
            }
            Err(Failure::NoPrivateView) => RunningProgram::NotRun(
                "this machine does not let users create namespaces, so it cannot be run without changing its files"
                    .to_owned(),
            ),
            Err(failure) => return Err(failure),
        })
    }
}
