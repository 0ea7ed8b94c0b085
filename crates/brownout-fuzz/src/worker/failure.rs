//! Failures of the target: whether they are real, and the shortest input that shows them.

use std::sync::atomic::Ordering;

use brownout_recovery::{End, Outcome};

use crate::campaign::{Discovery, Misbehaviour};
use crate::error::FuzzError;
use crate::executor::{Execution, ExecutionEnd};
use crate::feedback::Novelty;
use crate::minimization::minimize;

use super::{UntriedCase, Worker};

/// Executions to shorten an input on which the target fails: there are few of them, and people read them.
const SHORTENING: usize = 400;
/// Native runs to shorten one, if the target fails at another place on what executions have led to.
const NATIVE_SHORTENING: usize = 40;

impl Worker<'_> {
    /// Looks into a failure of the target, if none like it is known: runs it natively, and shortens the input.
    pub(super) fn judge_failure(
        &mut self,
        trial: &UntriedCase,
        execution: &Execution,
    ) -> Result<(), FuzzError> {
        {
            let mut shared = self.campaign.lock();
            if shared.failures.judge(execution) == Novelty::Nothing {
                return Ok(());
            }
            shared.failures.learn(execution);
        }
        let diagnosed = self.executor.diagnose(&trial.content, &trial.input);
        let Some(outcome) = self.survive(diagnosed)? else {
            return Ok(());
        };
        let campaign = self.campaign;
        let is_confirmed = match (execution.end, outcome.end) {
            (ExecutionEnd::TimedOut, End::TimedOut) => true,
            (ExecutionEnd::TimedOut, _) => false,
            (_, end) => matches!(end, End::Signaled(_) | End::OutOfMemory),
        };
        let mut shared = campaign.lock();
        if !is_confirmed {
            shared.unconfirmed += 1;
            return Ok(());
        }
        drop(shared);
        let (input, outcome) = self.shortest_failure(trial, execution.end, outcome)?;
        let mut shared = campaign.lock();
        let mut image = trial.image;
        if let Some(origin) = &trial.proposed {
            (image, _) = shared.images.add(origin.clone(), &trial.content)?;
        }
        drop(shared);
        campaign.report(Discovery::Misbehaviour(Box::new(Misbehaviour {
            input,
            image,
            content: trial.content.clone(),
            end: execution.end,
            outcome,
        })));
        Ok(())
    }

    /// The shortest input found on which the target fails at the same place, and its native run.
    fn shortest_failure(
        &mut self,
        trial: &UntriedCase,
        end: ExecutionEnd,
        outcome: Outcome,
    ) -> Result<(Vec<u8>, Outcome), FuzzError> {
        // Each attempt would take the whole time.
        if end == ExecutionEnd::TimedOut {
            return Ok((trial.input.clone(), outcome));
        }
        let is_same = |other: &Outcome| other.end == outcome.end && other.frames == outcome.frames;
        let input = minimize(&trial.input, SHORTENING, |input| {
            let again = self.attempt(trial, input)?;
            Ok(again.is_some_and(|again| again.end == end))
        })?;
        if let Some(shorter) = self.native_run(trial, &input)?.filter(is_same) {
            return Ok((input, shorter));
        }
        // A shorter input leads to another failure, which is not this finding.
        let input = minimize(&trial.input, NATIVE_SHORTENING, |input| {
            let again = self.native_run(trial, input)?;
            Ok(again.as_ref().is_some_and(is_same))
        })?;
        let shortest = self.native_run(trial, &input)?.filter(is_same);
        Ok(match shortest {
            Some(shortest) => (input, shortest),
            None => (trial.input.clone(), outcome),
        })
    }

    /// Executes the target on another input than that of a test case; not if the campaign is over.
    fn attempt(
        &mut self,
        trial: &UntriedCase,
        input: &[u8],
    ) -> Result<Option<Execution>, FuzzError> {
        if self.campaign.is_over() {
            return Ok(None);
        }
        self.campaign.executions.fetch_add(1, Ordering::Relaxed);
        let executed = self.executor.execute(&trial.content, input);
        self.survive(executed)
    }

    fn native_run(
        &mut self,
        trial: &UntriedCase,
        input: &[u8],
    ) -> Result<Option<Outcome>, FuzzError> {
        if self.campaign.is_over() {
            return Ok(None);
        }
        let diagnosed = self.executor.diagnose(&trial.content, input);
        self.survive(diagnosed)
    }
}
