//! Recoveries on images that come one by one, which do not run what earlier ones have done.
//!
//! Recovery that fails runs natively on the same image, and that decides. So does every recovery on which more depends than what it
//! reads, as far as that is noticed; see [`SharedStarts`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use brownout_engine::OtherInput;
use brownout_trace::replay::Content;
use serde::{Deserialize, Serialize};

use super::{Attempt, RecoveryRunner, RecoveryTask, RunnerError};
use crate::branching::{
    BranchOutcome, BranchingError, BranchingHost, CPU_LIMIT, RunUnderway, SharedStarts, SharedTree,
    StartInput, common_start, learn_end,
};
use crate::{Actor, End, Orphans, Outcome};

/// How a verdict was reached without native recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IndirectVerdict {
    /// By a run under the engine, which shares the start of others.
    Copy,
    /// An earlier one had read the same bytes.
    Known,
}

/// How recovery ends on an image.
struct Ended {
    outcome: Arc<BranchOutcome>,
    indirect: IndirectVerdict,
    /// What this took, without starting recovery for the first time.
    duration: Duration,
}

impl RecoveryRunner {
    /// Runs recovery as [`attempt_briefly`](Self::attempt_briefly) does, unless it is known how it ends or it can share its start with
    /// others.
    pub fn attempt_shared(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
        starts: &SharedStarts,
    ) -> Result<Option<Attempt>, RunnerError> {
        if starts.is_over() {
            self.shared_host.close();
            return self.attempt_briefly(image, task);
        }
        let Some(ended) = self.end_shared(image, task, starts) else {
            return self.attempt_briefly(image, task);
        };
        let outcome = Outcome {
            end: ended.outcome.end,
            actor: Actor::Recovery,
            duration: ended.duration,
            stdout: ended.outcome.stdout.clone(),
            stdout_complete: true,
            stderr: Vec::new(),
            orphans: Orphans::None,
            frames: Vec::new(),
        };
        let verdict = self.verdict(&outcome, task);
        if verdict.passed() && !starts.wants_check() {
            starts.took(ended.duration, self.durations.typical());
            return Ok(Some(Attempt {
                verdict,
                duration: ended.duration,
                output: Vec::new(),
                frames: Vec::new(),
                second_verdict: None,
                observation: None,
                indirect: Some(ended.indirect),
            }));
        }
        if !verdict.passed() {
            starts.took(ended.duration, Duration::ZERO);
        }
        let native = self.attempt_briefly(image, task)?;
        if let Some(native) = native.as_ref().filter(|native| native.verdict != verdict) {
            starts.contradict(format!(
                "recovery {verdict} when it shares its start, and {} natively",
                native.verdict
            ));
        }
        Ok(native)
    }

    /// How recovery ends on an image; `None` if that has to be found out natively.
    fn end_shared(
        &mut self,
        image: &[Option<Content>],
        task: &RecoveryTask,
        starts: &SharedStarts,
    ) -> Option<Ended> {
        let mut begun = Instant::now();
        let start = common_start(image, task);
        let Some(tree) = starts.tree(&start, image) else {
            starts.count_unexpected();
            return None;
        };
        let _underway = match RunUnderway::begin(&tree, image) {
            Ok(underway) => underway,
            Err(outcome) => {
                starts.count_known();
                return Some(Ended {
                    outcome,
                    indirect: IndirectVerdict::Known,
                    duration: begun.elapsed(),
                });
            }
        };
        let input = StartInput {
            like: &self.sandbox,
            start,
            image,
            differing: starts.differing(),
            cpu_limit: CPU_LIMIT,
        };
        let run = run_freely(&mut self.shared_host, input, &tree, &mut begun);
        let (outcome, is_copy) = match run {
            Ok(run) => run,
            Err(error) => {
                if !error.leaves_processes() {
                    self.shared_host.end_processes();
                }
                starts.failed(&error);
                return None;
            }
        };
        // Nobody changes other files while crashes are tested, and recoveries that write files do not get here.
        let files = OtherInput::OtherFiles.to_string();
        let varying = outcome.other_inputs.iter().filter(|input| **input != files);
        let varying: Vec<String> = varying.cloned().collect();
        if !varying.is_empty() {
            starts.uses_other_inputs(&varying);
            return None;
        }
        if outcome.end == End::TimedOut {
            let reason = "it takes much processor time".to_owned();
            starts.failed(&BranchingError::RunAnew(reason));
            return None;
        }
        starts.count_run(is_copy);
        Some(Ended {
            outcome,
            indirect: IndirectVerdict::Copy,
            duration: begun.elapsed(),
        })
    }
}

/// Runs recovery under the engine. Returns how it ended, and whether it was a copy. `begun` becomes the time at which it had been
/// started.
fn run_freely(
    host: &mut BranchingHost,
    input: StartInput<'_>,
    tree: &SharedTree,
    begun: &mut Instant,
) -> Result<(Arc<BranchOutcome>, bool), BranchingError> {
    let image = input.image;
    let recovery = host.recovery(input, || Arc::clone(tree))?;
    *begun = Instant::now();
    match recovery {
        Ok(recovery) => {
            let run = recovery.run_freely(image)?;
            Ok((run.outcome, run.is_copy))
        }
        Err(outcome) => Ok((learn_end(tree, outcome)?, false)),
    }
}
