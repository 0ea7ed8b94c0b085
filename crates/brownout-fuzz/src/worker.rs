//! The loop of one worker: mutates a test case, runs it, and keeps it if it shows something new.

mod failure;
mod images;
mod lost_execution;
mod novelty;
mod resumption;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use brownout_recovery::{RecordedPath, SymbolicInput};

use crate::campaign::FuzzCampaign;
use crate::error::FuzzError;
use crate::executor::{Execution, ExecutionEnd, Executor};
use crate::feedback::Novelty;
use crate::image::{ImageId, ImageOrigin, StartImage};
use crate::mutation::{Mutations, below, pick};
use crate::test_case::{ListedCase, TestCase};

/// Executions on one image before another test case is chosen.
const BATCH: usize = 24;

/// One worker.
pub struct Worker<'a> {
    campaign: &'a FuzzCampaign,
    executor: Box<dyn Executor>,
    /// The persistent files that the executor knows.
    files: Vec<PathBuf>,
    mutations: Mutations,
    /// How many test cases of the corpus the mutations know.
    learnt: usize,
    /// Executions that were lost, one after the other.
    lost_in_a_row: u32,
    /// Whether crash images are tried later, and those that wait.
    puts_off: bool,
    put_off: VecDeque<UntriedCase>,
}

/// An input to be tried, and where it comes from.
#[derive(Clone)]
pub(crate) struct UntriedCase {
    input: Vec<u8>,
    image: ImageId,
    content: StartImage,
    parent: Option<u64>,
    how: &'static str,
    /// Whether the image is only a proposal, which is added to the store if the execution shows something new.
    proposed: Option<ImageOrigin>,
}

impl UntriedCase {
    /// An input of the user.
    fn seed(input: Vec<u8>, image: ImageId, content: StartImage) -> Self {
        Self {
            input,
            image,
            content,
            parent: None,
            how: "seed",
            proposed: None,
        }
    }

    /// An input that was solved.
    pub fn solved(
        input: Vec<u8>,
        image: ImageId,
        content: StartImage,
        parent: Option<u64>,
    ) -> Self {
        Self {
            input,
            image,
            content,
            parent,
            how: "solved",
            proposed: None,
        }
    }

    /// The content is not that of the image but of one whose bytes were solved.
    pub fn on_solved_image(mut self) -> Self {
        self.proposed = Some(ImageOrigin::Solved { parent: self.image });
        self
    }
}

impl<'a> Worker<'a> {
    pub fn new(
        campaign: &'a FuzzCampaign,
        executor: Box<dyn Executor>,
        files: Vec<PathBuf>,
        seed: u64,
    ) -> Result<Self, FuzzError> {
        Ok(Self {
            campaign,
            executor,
            files,
            mutations: Mutations::new(&campaign.mutation_options(), seed)?,
            learnt: 0,
            lost_in_a_row: 0,
            puts_off: false,
            put_off: VecDeque::new(),
        })
    }

    /// Crash images are tried when [`try_put_off`](Self::try_put_off) is called.
    pub(crate) fn puts_off_crashes(mut self) -> Self {
        self.puts_off = true;
        self
    }

    /// Tries crash images that wait, a few of them. False if there were none.
    pub(crate) fn try_put_off(&mut self, most: usize) -> Result<bool, FuzzError> {
        let had_some = !self.put_off.is_empty();
        for _ in 0..most {
            match self.put_off.pop_front() {
                Some(trial) if !self.campaign.is_over() => self.try_out(trial)?,
                _ => break,
            };
        }
        Ok(had_some)
    }

    /// Finds the persistent files, then runs the seeds, or the test cases of an earlier process, on the images that there are.
    pub fn prepare(&mut self, listed: &[(ListedCase, Vec<u8>)]) -> Result<(), FuzzError> {
        let seeds = self.campaign.seeds();
        for seed in &seeds {
            // Until the files are known, the target sees those of the user.
            self.campaign.executions.fetch_add(1, Ordering::Relaxed);
            let used = self.executor.persistent(&StartImage::default(), seed);
            let used = self.survive(used)?.unwrap_or_default();
            self.note_files(&used)?;
            if !self.files.is_empty() || self.campaign.is_over() {
                break;
            }
        }
        let roots = self.roots()?;
        self.campaign.lock().mode = Some(self.executor.mode());
        for (case, input) in listed {
            if self.campaign.is_over() {
                return Ok(());
            }
            self.run_again(case, input)?;
        }
        for seed in &seeds {
            for (image, content) in &roots {
                if self.campaign.is_over() {
                    return Ok(());
                }
                let trial = UntriedCase::seed(seed.clone(), *image, content.clone());
                self.try_out(trial)?;
            }
        }
        let is_empty = self.campaign.lock().corpus.cases().is_empty();
        if is_empty && let Some((image, _)) = roots.first() {
            // Nothing has shown anything: there must be something to mutate.
            self.keep_anyway(&seeds[0], *image)?;
        }
        Ok(())
    }

    /// Mutates and runs test cases until the campaign is over.
    pub fn run(&mut self) -> Result<(), FuzzError> {
        // Seeds are what the user knows about inputs, whether they show anything new or not.
        for seed in self.campaign.seeds() {
            self.mutations.learn(&seed)?;
        }
        while !self.campaign.is_over() {
            self.learn_corpus()?;
            let Some((case, image)) = self.choose() else {
                return Ok(());
            };
            let Some(content) = self.image(image)? else {
                continue;
            };
            for _ in 0..BATCH {
                if self.campaign.is_over() {
                    return Ok(());
                }
                let input = self.mutations.mutate(&case.input)?;
                self.try_out(UntriedCase {
                    input,
                    image,
                    content: content.clone(),
                    parent: Some(case.number),
                    how: "mutation",
                    proposed: None,
                })?;
            }
        }
        Ok(())
    }

    /// Learns what other workers have found.
    fn learn_corpus(&mut self) -> Result<(), FuzzError> {
        let new: Vec<Vec<u8>> = {
            let shared = self.campaign.lock();
            let cases = shared.corpus.cases().iter();
            let new = cases.skip(self.learnt).map(|case| case.input.clone());
            new.collect()
        };
        self.learnt += new.len();
        new.iter().try_for_each(|input| self.mutations.learn(input))
    }

    /// A test case to mutate, and the image to start on: mostly its own, else any.
    fn choose(&mut self) -> Option<(TestCase, ImageId)> {
        let mut shared = self.campaign.lock();
        let rand = self.mutations.rand();
        let case = shared.corpus.choose(rand)?.clone();
        let image = match below(8, rand) {
            0..5 => case.image,
            // Of a few images the one that was used least.
            _ => {
                let candidates = (0..4).filter_map(|_| pick(shared.images.ids(), rand).copied());
                let least = candidates.min_by_key(|&id| shared.images.times_used(id));
                least.unwrap_or(case.image)
            }
        };
        Some((case, image))
    }

    /// Runs an input; `None` if the execution was lost.
    fn execute(
        &mut self,
        image: &StartImage,
        input: &[u8],
    ) -> Result<Option<Execution>, FuzzError> {
        self.use_files_of_others()?;
        self.campaign.executions.fetch_add(1, Ordering::Relaxed);
        let executed = self.executor.execute(image, input);
        let execution = self.survive(executed)?;
        if let Some(execution) = &execution {
            self.campaign.note_end(execution);
        }
        Ok(execution)
    }

    /// Uses the persistent files that other workers have found: images have them, too.
    fn use_files_of_others(&mut self) -> Result<(), FuzzError> {
        let files = {
            let shared = self.campaign.lock();
            // Files are only ever added.
            if shared.files.len() == self.files.len() {
                return Ok(());
            }
            shared.files.clone()
        };
        self.executor.use_files(&files)?;
        self.files = files;
        Ok(())
    }

    /// Extends the list of persistent files by those that the target has used. Returns whether there were any that were not known.
    fn note_files(&mut self, used: &[PathBuf]) -> Result<bool, FuzzError> {
        let is_known = |path: &PathBuf| self.files.contains(path);
        if used.iter().all(is_known) {
            return Ok(false);
        }
        let mut shared = self.campaign.lock();
        for path in used {
            if !shared.files.contains(path) {
                shared.files.push(path.clone());
            }
        }
        self.files = shared.files.clone();
        drop(shared);
        self.executor.use_files(&self.files)?;
        self.campaign.lock().mode = Some(self.executor.mode());
        Ok(true)
    }

    /// Runs an input while its path is recorded; `None` if the execution was lost.
    pub(crate) fn record_path(
        &mut self,
        image: &StartImage,
        input: &[u8],
        inputs: &[SymbolicInput],
    ) -> Result<Option<RecordedPath>, FuzzError> {
        let recorded = self.executor.record_path(image, input, inputs);
        self.survive(recorded)
    }

    /// Runs an input, and keeps it if it shows something new. Crash images of what is kept are tried, too. Returns what was new about the
    /// input.
    pub(crate) fn try_out(&mut self, trial: UntriedCase) -> Result<Novelty, FuzzError> {
        let mut first = None;
        let mut waiting = vec![trial];
        while let Some(trial) = waiting.pop() {
            if self.campaign.is_over() {
                break;
            }
            let Some(mut execution) = self.execute(&trial.content, &trial.input)? else {
                continue;
            };
            self.learn_corpus_anew(&execution)?;
            if execution.may_use_others && self.is_new(&execution) {
                let used = self.executor.persistent(&trial.content, &trial.input);
                let used = self.survive(used)?.unwrap_or_default();
                if self.note_files(&used)? {
                    waiting.extend(self.seeds_on_user_files()?);
                    match self.execute(&trial.content, &trial.input)? {
                        Some(again) => execution = again,
                        None => continue,
                    }
                }
            }
            if execution.end.is_failure() {
                self.judge_failure(&trial, &execution)?;
            }
            // What an execution that was cut off has shown depends on the load of the machine.
            if execution.end != ExecutionEnd::TimedOut {
                let (novelty, crashes) = self.judge(trial, execution)?;
                first.get_or_insert(novelty);
                match self.puts_off {
                    true => self.put_off.extend(crashes),
                    false => waiting.extend(crashes),
                }
            }
        }
        Ok(first.unwrap_or(Novelty::Nothing))
    }
}
