//! The loop of one worker: mutates a test case, runs it, and keeps it if it shows something new.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use brownout_recovery::{End, RecordedPath, SymbolicInput};

use crate::campaign::{Discovery, FuzzCampaign, Misbehaviour, recording};
use crate::crash_images::RecordedCase;
use crate::error::FuzzError;
use crate::executor::{Execution, ExecutionEnd, Executor};
use crate::feedback::Novelty;
use crate::image::{ImageId, ImageOrigin, StartImage};
use crate::input_to_state::{compared_strings, matching_inputs};
use crate::minimization::minimize;
use crate::mutation::{Mutations, below, pick};
use crate::test_case::{ListedCase, TestCase};

/// Executions on one image before another test case is chosen.
const BATCH: usize = 24;
/// Executions to shorten an input.
const SHORTENING: usize = 40;
/// The same for an input on which the target fails: there are few of them, and people read them.
const SHORTENING_FAILURE: usize = 400;

/// One worker.
pub struct Worker<'a> {
    campaign: &'a FuzzCampaign,
    executor: Box<dyn Executor>,
    /// The persistent files that the executor knows.
    files: Vec<PathBuf>,
    mutations: Mutations,
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
            let used = self.executor.persistent(&StartImage::default(), seed)?;
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
                self.try_out(UntriedCase {
                    input: seed.clone(),
                    image: *image,
                    content: content.clone(),
                    parent: None,
                    how: "seed",
                    proposed: None,
                })?;
            }
        }
        // Seeds are what the user knows about inputs, whether they show anything new or not.
        for seed in &seeds {
            self.mutations.learn(seed)?;
        }
        let is_empty = self.campaign.lock().corpus.cases().is_empty();
        if is_empty && let Some((image, _)) = roots.first() {
            // Nothing has shown anything: there must be something to mutate.
            self.keep_anyway(&seeds[0], *image)?;
        }
        Ok(())
    }

    /// The images that do not come from an input.
    fn roots(&mut self) -> Result<Vec<(ImageId, StartImage)>, FuzzError> {
        let user = StartImage::read(&self.files).map_err(|source| FuzzError::Read {
            path: self.files.first().cloned().unwrap_or_default(),
            source,
        })?;
        let mut roots = vec![(ImageOrigin::Absent, StartImage::default())];
        if !user.files.is_empty() {
            roots.insert(0, (ImageOrigin::User, user));
        }
        let mut shared = self.campaign.lock();
        let added = roots.into_iter().map(|(origin, image)| {
            let (id, _) = shared.images.add(origin, &image)?;
            Ok((id, image))
        });
        added.collect()
    }

    fn keep_anyway(&mut self, input: &[u8], image: ImageId) -> Result<(), FuzzError> {
        let elapsed = self.campaign.elapsed();
        let mut shared = self.campaign.lock();
        let case = TestCase {
            number: shared.corpus.next_number(),
            input: input.to_vec(),
            image,
            novelty: Novelty::Nothing,
            parent: None,
            transitions: Vec::new(),
            edges: Vec::new(),
            is_stable: true,
            times_chosen: 0,
        };
        shared.corpus.add(case, "seed", elapsed)
    }

    /// Runs a test case of an earlier process, so that what it shows is known.
    fn run_again(&mut self, listed: &ListedCase, input: &[u8]) -> Result<(), FuzzError> {
        let content = self.campaign.lock().images.image(listed.image);
        // An image that was evicted is built again when it is needed.
        let execution = match content {
            Some(content) => Some(self.execute(&content, input)?),
            None => None,
        };
        let mut shared = self.campaign.lock();
        if let Some(execution) = &execution {
            shared.feedback.learn(execution);
        }
        let (transitions, edges) = execution
            .map(|execution| (execution.transitions, execution.edges))
            .unwrap_or_default();
        let case = TestCase {
            number: listed.number,
            input: input.to_vec(),
            image: listed.image,
            novelty: listed.novelty,
            parent: listed.parent,
            transitions,
            edges,
            is_stable: true,
            times_chosen: 0,
        };
        shared.corpus.keep_listed(case, listed.clone());
        drop(shared);
        let trace = recording(&self.campaign.options.out, listed.number);
        if listed.novelty == Novelty::Transition && !listed.is_examined && trace.exists() {
            self.campaign.report(Discovery::Path {
                case: listed.number,
                image: listed.image,
                input: input.to_vec(),
                trace,
            });
        }
        Ok(())
    }

    /// Mutates and runs test cases until the campaign is over.
    pub fn run(&mut self) -> Result<(), FuzzError> {
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
        let seeds = self.campaign.options.seeds.len();
        let known = self.mutations.learnt();
        let new: Vec<Vec<u8>> = {
            let shared = self.campaign.lock();
            let cases = shared.corpus.cases();
            let from = known.saturating_sub(seeds).min(cases.len());
            cases[from..]
                .iter()
                .map(|case| case.input.clone())
                .collect()
        };
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

    /// The content of an image; `None` if it was evicted and cannot be built again.
    pub(crate) fn image(&mut self, id: ImageId) -> Result<Option<StartImage>, FuzzError> {
        let (content, origin) = {
            let mut shared = self.campaign.lock();
            (shared.images.take(id), shared.images.origin(id).cloned())
        };
        match (content, origin) {
            (Some(content), _) => Ok(Some(content)),
            (None, Some(origin)) => self.rebuild(id, &origin),
            (None, None) => Ok(None),
        }
    }

    /// Builds an image again that was evicted, by running the test case that it comes from.
    fn rebuild(
        &mut self,
        id: ImageId,
        origin: &ImageOrigin,
    ) -> Result<Option<StartImage>, FuzzError> {
        let (ImageOrigin::Left { parent, case } | ImageOrigin::Crash { parent, case, .. }) = origin
        else {
            return Ok(None);
        };
        let input = self.campaign.input(*case);
        let Some((input, parent)) = input.zip(self.image(*parent)?) else {
            return Ok(None);
        };
        let image = match origin {
            ImageOrigin::Crash { event, .. } => {
                let trace = tempfile::NamedTempFile::new_in(&self.campaign.options.out);
                let trace = trace.map_err(|source| FuzzError::Write {
                    path: self.campaign.options.out.clone(),
                    source,
                })?;
                self.executor.record(&parent, &input, trace.path())?;
                let recorded = RecordedCase {
                    trace: trace.path(),
                    files: &self.files,
                    patterns: self.campaign.options.patterns.as_ref(),
                };
                recorded.crash_image_at(*event)?
            }
            _ => {
                self.execute(&parent, &input)?;
                StartImage::new(self.executor.files()?)
            }
        };
        if image.id() != id {
            // The target is not the same in each execution.
            return Ok(None);
        }
        self.campaign.lock().images.add(origin.clone(), &image)?;
        Ok(Some(image))
    }

    fn execute(&mut self, image: &StartImage, input: &[u8]) -> Result<Execution, FuzzError> {
        self.campaign.executions.fetch_add(1, Ordering::Relaxed);
        let execution = self.executor.execute(image, input)?;
        self.campaign.note_end(&execution);
        Ok(execution)
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
        Ok(true)
    }

    /// Runs an input while its path is recorded.
    pub(crate) fn record_path(
        &mut self,
        image: &StartImage,
        input: &[u8],
        inputs: &[SymbolicInput],
    ) -> Result<RecordedPath, FuzzError> {
        self.executor.record_path(image, input, inputs)
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
            let mut execution = self.execute(&trial.content, &trial.input)?;
            if execution.may_use_others && self.is_new(&execution) {
                let used = self.executor.persistent(&trial.content, &trial.input)?;
                if self.note_files(&used)? {
                    execution = self.execute(&trial.content, &trial.input)?;
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

    fn is_new(&self, execution: &Execution) -> bool {
        self.campaign.lock().feedback.judge(execution) > Novelty::Nothing
    }

    /// Keeps a test case if it shows something new. Returns what is new, and crash images of it, to be tried.
    fn judge(
        &mut self,
        trial: UntriedCase,
        execution: Execution,
    ) -> Result<(Novelty, Vec<UntriedCase>), FuzzError> {
        let (novelty, unseen) = {
            let mut shared = self.campaign.lock();
            let novelty = shared.feedback.judge(&execution);
            if novelty == Novelty::Nothing {
                return Ok((novelty, Vec::new()));
            }
            let unseen = shared.feedback.unseen(&execution);
            if novelty == Novelty::Transition {
                shared.feedback.reserve(&execution);
                shared.last_new_path = Some(self.campaign.elapsed());
            } else {
                shared.feedback.learn(&execution);
            }
            (novelty, unseen)
        };
        let again = self.execute(&trial.content, &trial.input)?;
        let is_stable = again.transitions == execution.transitions;
        let mut trial = trial;
        let mut execution = execution;
        let mut next = Vec::new();
        if novelty == Novelty::Transition {
            if is_stable {
                let input = self.shortened(&trial, &unseen)?;
                if input != trial.input {
                    // What the shorter input does not show is still new, and the longer one is kept for that.
                    next.push(trial.clone());
                    trial.input = input;
                }
                execution = self.execute(&trial.content, &trial.input)?;
            }
            self.campaign.lock().feedback.learn(&execution);
        }
        let case = self.keep(&trial, &execution, novelty, is_stable)?;
        next.extend(self.with_equal_comparisons(&trial, case)?);
        if novelty == Novelty::Transition {
            next.extend(self.record(&trial, case)?);
        }
        Ok((novelty, next))
    }

    /// Inputs that make comparisons of a test case equal, to be tried.
    fn with_equal_comparisons(
        &mut self,
        trial: &UntriedCase,
        case: u64,
    ) -> Result<Vec<UntriedCase>, FuzzError> {
        let comparisons = self.executor.comparisons(&trial.content, &trial.input)?;
        self.mutations.learn_tokens(&compared_strings(&comparisons));
        let image = self.image_of(case).unwrap_or(trial.image);
        let longest = self.campaign.options.longest_input;
        let inputs = matching_inputs(&trial.input, &comparisons).into_iter();
        let trials = inputs
            .filter(|input| input.len() <= longest)
            .map(|input| UntriedCase {
                input,
                image,
                content: trial.content.clone(),
                parent: Some(case),
                how: "comparison",
                proposed: None,
            });
        Ok(trials.collect())
    }

    fn image_of(&self, case: u64) -> Option<ImageId> {
        Some(self.campaign.lock().corpus.case(case)?.image)
    }

    /// The shortest input found that still takes the transitions which were new.
    fn shortened(&mut self, trial: &UntriedCase, unseen: &[u64]) -> Result<Vec<u8>, FuzzError> {
        let (campaign, executor) = (self.campaign, &mut self.executor);
        minimize(&trial.input, SHORTENING, |input| {
            if campaign.is_over() {
                return Ok(false);
            }
            campaign.executions.fetch_add(1, Ordering::Relaxed);
            let execution = executor.execute(&trial.content, input)?;
            let taken = |key: &u64| {
                let found = execution
                    .transitions
                    .binary_search_by_key(key, |&(key, _)| key);
                found.is_ok()
            };
            Ok(unseen.iter().all(taken))
        })
    }

    /// Adds a test case, and the image that it leaves if that is worth starting on.
    fn keep(
        &mut self,
        trial: &UntriedCase,
        execution: &Execution,
        novelty: Novelty,
        is_stable: bool,
    ) -> Result<u64, FuzzError> {
        let elapsed = self.campaign.elapsed();
        let leaves = novelty >= Novelty::Count && matches!(execution.end, ExecutionEnd::Exited(_));
        let left = match leaves {
            true => Some(StartImage::new(self.executor.files()?)),
            false => None,
        };
        let mut shared = self.campaign.lock();
        let mut image = trial.image;
        if let Some(origin) = &trial.proposed {
            (image, _) = shared.images.add(origin.clone(), &trial.content)?;
        }
        let number = shared.corpus.next_number();
        let case = TestCase {
            number,
            input: trial.input.clone(),
            image,
            novelty,
            parent: trial.parent,
            transitions: execution.transitions.clone(),
            edges: execution.edges.clone(),
            is_stable,
            times_chosen: 0,
        };
        shared.corpus.add(case, trial.how, elapsed)?;
        for phrase in &execution.unpinned {
            if !is_stable && !shared.unpinned.contains(phrase) {
                shared.unpinned.push(phrase.clone());
            }
        }
        if let Some(left) = left {
            let origin = ImageOrigin::Left {
                parent: image,
                case: number,
            };
            shared.images.add(origin, &left)?;
        }
        Ok(number)
    }

    /// Records a test case for examination, and proposes its crash images as images to start on.
    fn record(&mut self, trial: &UntriedCase, case: u64) -> Result<Vec<UntriedCase>, FuzzError> {
        let trace = recording(&self.campaign.options.out, case);
        if let Some(folder) = trace.parent() {
            std::fs::create_dir_all(folder).map_err(|source| FuzzError::Write {
                path: folder.to_owned(),
                source,
            })?;
        }
        self.executor.record(&trial.content, &trial.input, &trace)?;
        let rate = self.campaign.options.crash_rate;
        let recorded = RecordedCase {
            trace: &trace,
            files: &self.files,
            patterns: self.campaign.options.patterns.as_ref(),
        };
        let crashes = recorded.crash_images(rate, self.mutations.rand())?;
        let image = self.image_of(case).unwrap_or(trial.image);
        self.campaign.report(Discovery::Path {
            case,
            image,
            input: trial.input.clone(),
            trace,
        });
        let known = self.campaign.lock().images.ids().to_vec();
        let trials = crashes.into_iter().filter_map(|crash| {
            let origin = ImageOrigin::Crash {
                parent: image,
                case,
                event: crash.event,
            };
            let id = crash.image.id();
            (!known.contains(&id)).then(|| UntriedCase {
                input: trial.input.clone(),
                image: id,
                content: crash.image,
                parent: Some(case),
                how: "crash",
                proposed: Some(origin),
            })
        });
        Ok(trials.collect())
    }

    /// Looks into a failure of the target, if none like it is known: shortens the input, and runs it natively.
    fn judge_failure(
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
        let (campaign, executor) = (self.campaign, &mut self.executor);
        let input = match execution.end {
            // Each attempt would take the whole time.
            ExecutionEnd::TimedOut => trial.input.clone(),
            end => minimize(&trial.input, SHORTENING_FAILURE, |input| {
                if campaign.is_over() {
                    return Ok(false);
                }
                campaign.executions.fetch_add(1, Ordering::Relaxed);
                let again = executor.execute(&trial.content, input)?;
                Ok(again.end == end)
            })?,
        };
        let outcome = executor.diagnose(&trial.content, &input)?;
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
        let mut image = trial.image;
        if let Some(origin) = &trial.proposed {
            (image, _) = shared.images.add(origin.clone(), &trial.content)?;
        }
        drop(shared);
        campaign.report(Discovery::Misbehaviour(Box::new(Misbehaviour {
            input,
            image,
            end: execution.end,
            outcome,
        })));
        Ok(())
    }
}
