//! A campaign: what its workers share, and what they report (PMFuzz §4.5).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use brownout_recovery::Outcome;
use brownout_trace::selection::Patterns;

use crate::campaign_file::CampaignFile;
use crate::corpus::Corpus;
use crate::cover::cover;
use crate::end_counts::{EndCounters, EndCounts};
use crate::error::FuzzError;
use crate::examination::CaseExamination;
use crate::executor::{Execution, ExecutionEnd, Executor};
use crate::feedback::{Feedback, Novelty};
use crate::grammar::Grammar;
use crate::image::{ImageId, ImageOrigin, StartImage};
use crate::image_store::ImageStore;
use crate::mutation::MutationOptions;
use crate::pm_coverage::{PmCoverage, ReachedOperation, with_lines};
use crate::symbolic::{
    OperationLine, PmProgress, SymbolicFigures, SymbolicOptions, SymbolicSearch, SymbolicWorker,
    UnsolvedCause, UnsolvedCounts,
};
use crate::test_case::{ListedCase, TestCase};
use crate::worker::Worker;

/// How a campaign is run.
pub struct CampaignOptions {
    /// The results directory.
    pub out: PathBuf,
    pub seeds: Vec<Vec<u8>>,
    pub tokens: Vec<Vec<u8>>,
    pub grammar: Option<Grammar>,
    pub longest_input: usize,
    /// The probability of a crash image before a store.
    pub crash_rate: f64,
    /// Bytes that images may take on disk.
    pub disk_limit: u64,
    /// Determines all random choices; with several workers, their order is left to the system.
    pub random_seed: u64,
    pub patterns: Option<Patterns>,
    /// Whether crashes of test cases are tested when they are examined.
    pub tests_crashes: bool,
    pub jobs: usize,
    /// How inputs are solved for, if some workers do that. The last workers are those.
    pub symbolic: Option<SymbolicOptions>,
}

/// What a worker has found that someone has to look at.
#[derive(Debug)]
pub enum Discovery {
    /// A test case with a new path through persistent memory was recorded.
    Path {
        case: u64,
        image: ImageId,
        /// The content of the image, which may be evicted from the store.
        content: StartImage,
        input: Vec<u8>,
        trace: PathBuf,
    },
    Misbehaviour(Box<Misbehaviour>),
    /// A worker cannot continue.
    Failed(FuzzError),
}

/// The target failed on a test case, natively too.
#[derive(Debug)]
pub struct Misbehaviour {
    pub input: Vec<u8>,
    pub image: ImageId,
    /// The content of the image, which may be evicted from the store.
    pub content: StartImage,
    pub end: ExecutionEnd,
    /// The native run.
    pub outcome: Outcome,
}

/// Figures of a campaign at one time.
#[derive(Clone, Debug, Default)]
pub struct CampaignStatus {
    pub elapsed: Duration,
    pub executions: u64,
    /// Transitions between operations on persistent memory that were seen.
    pub transitions: usize,
    /// Parts of the code that were executed.
    pub edges: usize,
    pub corpus: usize,
    /// Test cases that are not the same in each execution.
    pub unstable: u64,
    pub images: usize,
    pub evicted: u64,
    /// Whether images that cannot be built again take more than they may.
    pub exceeds_disk_limit: bool,
    /// Bytes of images and inputs on disk.
    pub disk: u64,
    /// Failures of the target that a native run did not repeat.
    pub unconfirmed: u64,
    /// Executions of this process that have destroyed what ran them, and were skipped.
    pub lost: u64,
    /// Executions of this process with more different transitions than can be counted.
    pub incomplete: u64,
    pub last_new_path: Option<Duration>,
    /// What symbolic workers have done, if there are any.
    pub symbolic: Option<SymbolicStatus>,
}

/// What symbolic workers have done.
#[derive(Clone, Debug, Default)]
pub struct SymbolicStatus {
    pub figures: SymbolicFigures,
    pub progress: PmProgress,
    pub branches: UnsolvedCounts,
}

impl CampaignStatus {
    /// The share of test cases that are the same in each execution.
    pub fn stability(&self) -> f64 {
        match self.corpus {
            0 => 1.0,
            corpus => 1.0 - self.unstable as f64 / corpus as f64,
        }
    }
}

/// Starts an executor for a target with these persistent files.
pub type StartExecutor<'a> = dyn Fn(&[PathBuf]) -> Result<Box<dyn Executor>, FuzzError> + Sync + 'a;

/// What workers share under one lock.
pub(crate) struct Shared {
    pub feedback: Feedback,
    /// What executions that failed have shown.
    pub failures: Feedback,
    pub corpus: Corpus,
    pub images: ImageStore,
    pub coverage: PmCoverage,
    /// The persistent files of the target, in the order of the files of images.
    pub files: Vec<PathBuf>,
    /// What can make executions differ, one phrase each.
    pub unpinned: Vec<String>,
    pub last_new_path: Option<Duration>,
    pub unconfirmed: u64,
    /// How executions start.
    pub mode: Option<String>,
    file: CampaignFile,
}

impl Shared {
    /// Notes what can make executions differ, because one has differed.
    pub(crate) fn note_unpinned(&mut self, execution: &Execution) {
        for phrase in &execution.unpinned {
            if !self.unpinned.contains(phrase) {
                self.unpinned.push(phrase.clone());
            }
        }
    }
}

/// A campaign that is under way.
pub struct FuzzCampaign {
    pub(crate) options: CampaignOptions,
    pub(crate) executions: AtomicU64,
    /// Whether an execution may have used the input.
    may_have_used_input: AtomicBool,
    ends: EndCounters,
    /// Executions of this process that have destroyed what ran them.
    pub(crate) lost: AtomicU64,
    /// Executions of this process of which not all transitions were counted.
    incomplete: AtomicU64,
    shared: Mutex<Shared>,
    stop: AtomicBool,
    started: Instant,
    /// How long earlier processes have worked on it.
    before: Duration,
    discoveries: Sender<Discovery>,
    /// Test cases of an earlier process.
    listed: Vec<(ListedCase, Vec<u8>)>,
    search: SymbolicSearch,
    /// Whether the seeds were run, so that workers can begin.
    prepared: AtomicBool,
}

impl FuzzCampaign {
    /// Begins a campaign in a results directory, or continues the one of `earlier`.
    pub fn new(
        options: CampaignOptions,
        earlier: CampaignFile,
    ) -> Result<(Self, Receiver<Discovery>), FuzzError> {
        let listed = Corpus::listed(&options.out)?;
        let mut images = ImageStore::create(&options.out, options.disk_limit)?;
        images.load()?;
        let mut corpus = Corpus::create(&options.out)?;
        corpus.remember(listed.iter().map(|(case, _)| case));
        let (discoveries, received) = channel();
        let campaign = Self {
            executions: AtomicU64::new(earlier.executions),
            may_have_used_input: AtomicBool::new(earlier.may_have_used_input),
            ends: EndCounters::after(earlier.ends),
            lost: AtomicU64::new(0),
            incomplete: AtomicU64::new(0),
            before: Duration::try_from_secs_f64(earlier.seconds).unwrap_or_default(),
            shared: Mutex::new(Shared {
                feedback: Feedback::default(),
                failures: Feedback::default(),
                corpus,
                images,
                coverage: PmCoverage::default(),
                files: earlier.paths(),
                unpinned: Vec::new(),
                last_new_path: None,
                unconfirmed: 0,
                mode: None,
                file: earlier,
            }),
            stop: AtomicBool::new(false),
            started: Instant::now(),
            discoveries,
            listed,
            search: SymbolicSearch::in_directory(options.out.join("analyses")),
            options,
            prepared: AtomicBool::new(false),
        };
        campaign.save()?;
        Ok((campaign, received))
    }

    /// Runs workers until [`stop`](Self::stop). `meanwhile` runs on this thread and must return when the campaign is over.
    pub fn run<T>(&self, start: &StartExecutor<'_>, meanwhile: impl FnOnce() -> T) -> T {
        thread::scope(|scope| {
            for number in 0..self.options.jobs.max(1) {
                scope.spawn(move || {
                    if let Err(error) = self.work(number, start) {
                        self.report(Discovery::Failed(error));
                        self.prepared.store(true, Ordering::SeqCst);
                    }
                });
            }
            let result = meanwhile();
            self.stop();
            result
        })
    }

    fn work(&self, number: usize, start: &StartExecutor<'_>) -> Result<(), FuzzError> {
        if number > 0 {
            // The first worker finds out what the persistent files are, and runs the seeds.
            while !self.is_prepared() && !self.is_over() {
                thread::sleep(Duration::from_millis(20));
            }
        }
        if self.is_over() {
            return Ok(());
        }
        let files = self.lock().files.clone();
        let executor = start(&files)?;
        let seed = self.options.random_seed.wrapping_add(number as u64);
        let mut worker = Worker::new(self, executor, files, seed)?;
        let symbolic = { self.options.symbolic.as_ref() }
            .filter(|options| number + options.workers >= self.options.jobs.max(1));
        if symbolic.is_some() {
            worker = worker.puts_off_crashes();
        }
        if number == 0 {
            worker.prepare(&self.listed)?;
            self.prepared.store(true, Ordering::SeqCst);
        }
        match symbolic {
            Some(options) => SymbolicWorker::new(self, &self.search, options, worker).run(),
            None => worker.run(),
        }
    }

    /// Whether the seeds were run.
    pub(crate) fn is_prepared(&self) -> bool {
        self.prepared.load(Ordering::SeqCst)
    }

    /// The inputs to begin with.
    pub(crate) fn seeds(&self) -> Vec<Vec<u8>> {
        match &self.options.seeds[..] {
            [] => vec![b"\n".to_vec()],
            seeds => seeds.to_vec(),
        }
    }

    pub(crate) fn mutation_options(&self) -> MutationOptions {
        MutationOptions {
            tokens: self.options.tokens.clone(),
            grammar: self.options.grammar.clone(),
            longest_input: self.options.longest_input,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn report(&self, discovery: Discovery) {
        // It is received as long as the campaign runs.
        let _ = self.discoveries.send(discovery);
    }

    /// Notes what an execution says about the campaign as a whole.
    pub(crate) fn note_end(&self, execution: &Execution) {
        if execution.may_have_used_input {
            self.may_have_used_input.store(true, Ordering::Relaxed);
        }
        if execution.lost_transitions > 0 {
            self.incomplete.fetch_add(1, Ordering::Relaxed);
        }
        self.ends.add(execution.end);
    }

    /// Whether an execution may have used the input.
    pub fn may_have_used_input(&self) -> bool {
        self.may_have_used_input.load(Ordering::Relaxed)
    }

    /// How executions have ended.
    pub fn ends(&self) -> EndCounts {
        self.ends.counts()
    }

    /// Whether a test case was kept, by this process or an earlier one, for what it does with persistent memory.
    pub fn has_paths(&self) -> bool {
        let is_path = |case: &ListedCase| case.novelty >= Novelty::Count;
        self.listed.iter().any(|(case, _)| is_path(case)) || self.lock().feedback.transitions() > 0
    }

    /// Lets the workers end after their present execution.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    pub fn elapsed(&self) -> Duration {
        self.before + self.started.elapsed()
    }

    /// How long this process has worked on it.
    pub fn elapsed_here(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn status(&self) -> CampaignStatus {
        // The lock of the search is always taken first.
        let symbolic = self.options.symbolic.as_ref().map(|_| {
            let state = self.search.lock();
            SymbolicStatus {
                figures: state.figures.clone(),
                progress: state.guide.progress(),
                branches: state.branches.counts(),
            }
        });
        let shared = self.lock();
        CampaignStatus {
            elapsed: self.elapsed(),
            executions: self.executions.load(Ordering::Relaxed),
            transitions: shared.feedback.transitions(),
            edges: shared.feedback.edges(),
            corpus: shared.corpus.cases().len(),
            unstable: shared.corpus.unstable(),
            images: shared.images.ids().len(),
            evicted: shared.images.evicted(),
            exceeds_disk_limit: shared.images.exceeds_limit(),
            disk: shared.images.disk() + shared.corpus.disk(),
            unconfirmed: shared.unconfirmed,
            lost: self.lost.load(Ordering::Relaxed),
            incomplete: self.incomplete.load(Ordering::Relaxed),
            last_new_path: shared.last_new_path,
            symbolic,
        }
    }

    /// The operations on persistent memory that the corpus has reached, with source lines; none if the target cannot be copied.
    pub fn reached_operations(&self) -> Vec<ReachedOperation> {
        let operations = self.lock().coverage.operations();
        with_lines(operations)
    }

    /// The source lines of the program with operations on persistent memory, as far as symbolic workers know them.
    pub fn operation_lines(&self) -> Vec<OperationLine> {
        self.search.lock().guide.lines()
    }

    /// Source lines of branches on the input that went one way only, with the cause.
    pub fn unsolved_branches(&self) -> Vec<(String, UnsolvedCause)> {
        let mut state = self.search.lock();
        let unsolved = state.branches.unsolved().into_iter();
        unsolved
            .map(|(pc, cause)| (state.guide.place(pc), cause))
            .collect()
    }

    /// Writes how far the campaign is.
    pub fn save(&self) -> Result<(), FuzzError> {
        let mut shared = self.lock();
        let files = shared.files.clone();
        shared.file.set_paths(&files);
        shared.file.executions = self.executions.load(Ordering::Relaxed);
        shared.file.seconds = self.elapsed().as_secs_f64();
        shared.file.ends = self.ends();
        shared.file.may_have_used_input = self.may_have_used_input();
        shared.file.write(&self.options.out)
    }

    /// Notes what the examination of a recording has come to. From now on the recording is not needed.
    pub fn examined(&self, case: u64, examination: CaseExamination) -> Result<(), FuzzError> {
        self.lock().corpus.mark_examined(case, examination)?;
        // One that cannot be removed is not examined again.
        let _ = fs::remove_file(self.recording(case));
        Ok(())
    }

    /// The test cases that were examined in the whole campaign, and what that has come to.
    pub fn examinations(&self) -> Vec<(u64, CaseExamination)> {
        let shared = self.lock();
        let examined = shared.corpus.examinations();
        examined
            .map(|(case, examination)| (case, examination.clone()))
            .collect()
    }

    /// The persistent files that the target has used.
    pub fn files(&self) -> Vec<PathBuf> {
        self.lock().files.clone()
    }

    /// How executions start, once it is known: a phrase about the target.
    pub fn mode(&self) -> Option<String> {
        self.lock().mode.clone()
    }

    /// What can make executions of the same test case differ, one phrase each.
    pub fn unpinned(&self) -> Vec<String> {
        self.lock().unpinned.clone()
    }

    /// The numbers of test cases that are not the same in each execution.
    pub fn unstable_cases(&self) -> Vec<u64> {
        let shared = self.lock();
        let cases = shared.corpus.cases().iter();
        let unstable = cases.filter(|case| !case.is_stable);
        unstable.map(|case| case.number).collect()
    }

    /// How an image came about: from the root to it.
    pub fn chain(&self, id: ImageId) -> Vec<ImageOrigin> {
        let shared = self.lock();
        let mut chain = Vec::new();
        let mut next = Some(id);
        while let Some(origin) = next.and_then(|id| shared.images.origin(id)) {
            next = origin.parent();
            chain.push(origin.clone());
        }
        chain.reverse();
        chain
    }

    /// The input of a test case.
    pub fn input(&self, case: u64) -> Option<Vec<u8>> {
        let shared = self.lock();
        shared.corpus.case(case).map(|case| case.input.clone())
    }

    /// The numbers of few test cases that show what all show.
    pub fn minimal_corpus(&self) -> Vec<u64> {
        let cases: Vec<TestCase> = self.lock().corpus.cases().to_vec();
        cover(&cases)
    }

    /// Where recordings of test cases are until they are examined.
    pub fn recording(&self, case: u64) -> PathBuf {
        recording(&self.options.out, case)
    }
}

/// The path of the recording of a test case.
pub(crate) fn recording(out: &Path, case: u64) -> PathBuf {
    out.join("recordings").join(format!("{case:06}.trace"))
}
