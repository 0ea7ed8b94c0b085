//! Runs of a branching recovery on images that are given, of which others are not known beforehand.
//!
//! Recovery reads the image without waiting. It waits only where an earlier run has read something else: there a process is
//! kept, because images that differ in these bytes have come twice. So a run needs at most two copies of a process.

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use brownout_engine::explore::ALL_FREE;
use brownout_trace::replay::{Content, PAGE};

use super::messages::{BranchCommand, BranchOutcome, FreeStep, Question};
use super::question_tree::{Contradiction, NodeNumber, QuestionTree};
use super::{BranchProgress, BranchingError, BranchingRecovery, image_bytes, taken};
use crate::End;
use crate::channel::ChannelError;

/// How far a run has got.
struct Progress {
    /// Questions with their answers: those that the run has met, and those that it will meet as far as they are known.
    path: Vec<(NodeNumber, Vec<u8>)>,
    /// The last question of the path that it has met.
    at: usize,
    /// The answer to the last question of the run.
    answer: Vec<u8>,
    /// Whether the path contains all questions of the run: there was room for them in the tree.
    is_learning: bool,
}

impl Progress {
    /// Notes the next question of the run.
    fn note(
        &mut self,
        tree: &mut QuestionTree,
        question: Question,
        image: &[Option<Content>],
    ) -> Result<(), Contradiction> {
        self.answer = image_bytes(&question, image);
        if !self.is_learning {
            return Ok(());
        }
        let (before, answer) = &self.path[self.at];
        match tree.ask(*before, answer, question)? {
            None => self.is_learning = false,
            Some(node) => {
                self.at += 1;
                if self.at == self.path.len() {
                    self.path.push((node, self.answer.clone()));
                }
            }
        }
        Ok(())
    }
}

/// How a recovery ends on an image.
#[derive(Debug)]
pub(crate) struct FreeOutcome {
    pub outcome: Arc<BranchOutcome>,
    /// Whether it was a copy of a process that had waited.
    pub is_copy: bool,
}

impl BranchingRecovery {
    /// Runs recovery on an image that has the common start, and differs from others only in bytes that differ. How it ends is not known
    /// yet.
    pub(crate) fn run_freely(
        &mut self,
        image: &[Option<Content>],
    ) -> Result<FreeOutcome, BranchingError> {
        let (path, known) = self.tree().follow(|question| image_bytes(question, image));
        if let Some(outcome) = known {
            // Another runner has learned it in the meantime.
            let is_copy = false;
            return Ok(FreeOutcome { outcome, is_copy });
        }
        let nodes = path.iter().map(|(node, _)| *node);
        let Some((at, mut branch)) = self.waiting.last(nodes) else {
            // The first process waits as long as the recovery lives.
            return Err(ChannelError::Closed.into());
        };
        let is_copy = std::mem::replace(&mut self.was_used, true);
        self.put(image)?;
        let first = at;
        // No run has answered this question so.
        let last_known = path.len() - 1;
        let mut run = Progress {
            answer: path[at].1.clone(),
            path,
            at,
            is_learning: true,
        };
        let outcome = loop {
            let keep = run.is_learning && (run.at == first || run.at == last_known);
            if keep {
                self.waiting.keep(run.path[run.at].0, branch);
            }
            self.make_room()?;
            let free = match run.at < last_known {
                true => (last_known - run.at - 1) as u32,
                false => ALL_FREE,
            };
            let answer = std::mem::take(&mut run.answer);
            let (questions, step) = self.answer_freely(branch, answer, keep, free)?;
            let noted = questions
                .into_iter()
                .try_for_each(|question| run.note(&mut self.tree(), question, image));
            let waiting = match step {
                BranchProgress::Ended(outcome) => {
                    noted?;
                    break outcome;
                }
                BranchProgress::Waits(waiting) => waiting,
            };
            branch = waiting.branch;
            let noted = noted.and_then(|()| run.note(&mut self.tree(), waiting.question, image));
            if let Err(contradiction) = noted {
                self.release(branch)?;
                return Err(contradiction.into());
            }
        };
        if run.is_learning && outcome.end != End::TimedOut {
            let (node, bytes) = &run.path[run.at];
            self.tree().end(*node, bytes, outcome.clone())?;
        }
        Ok(FreeOutcome {
            outcome: Arc::new(outcome),
            is_copy,
        })
    }

    /// Makes the persistent files hold an image. Processes that wait do not see it until they go on.
    fn put(&mut self, image: &[Option<Content>]) -> Result<(), BranchingError> {
        let files = self.sandbox.files()?;
        for ((old, new), file) in self.written.iter_mut().zip(image).zip(files) {
            let (Some(old), Some(new)) = (old, new) else {
                continue;
            };
            for number in old.pages_unlike(new) {
                let start = number * PAGE as u64;
                let len = new.len().saturating_sub(start).min(PAGE as u64) as usize;
                let bytes = new.page(number).unwrap_or(&[0; PAGE]);
                file.write_all_at(&bytes[..len], start)?;
            }
            *old = new.clone();
        }
        Ok(())
    }

    fn answer_freely(
        &mut self,
        branch: u32,
        bytes: Vec<u8>,
        keep: bool,
        free: u32,
    ) -> Result<(Vec<Question>, BranchProgress), BranchingError> {
        let answer = BranchCommand::AnswerFreely {
            branch,
            bytes,
            keep,
            free,
        };
        let sent = self.channel.send(&answer, &[]);
        self.connected(sent)?;
        let FreeStep { free, step } = self.received()?;
        Ok((free, taken(step)?))
    }
}
