//! Recovery runners side by side, each with a thread of its own.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::run_durations::RunDurations;
use crate::runner::{RecoveryRunner, RunnerError};

/// How long to wait for a result before the caller can check whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

type Job<R> = Box<dyn FnOnce(&mut RecoveryRunner) -> Result<R, RunnerError> + Send>;

/// Distributes jobs to runners and collects their results.
#[derive(Debug)]
pub struct RunnerPool<R> {
    jobs: Option<Sender<Job<R>>>,
    results: Receiver<Result<R, RunnerError>>,
    threads: Vec<JoinHandle<RecoveryRunner>>,
    durations: Arc<RunDurations>,
    /// Jobs whose results were not collected yet.
    pending: usize,
}

impl<R: Send + 'static> RunnerPool<R> {
    pub fn new(mut runners: Vec<RecoveryRunner>) -> Self {
        let durations = RecoveryRunner::share_durations(&mut runners);
        let (jobs, queue) = channel::<Job<R>>();
        let (sender, results) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let threads = runners.into_iter().map(|mut runner| {
            let (queue, sender) = (Arc::clone(&queue), sender.clone());
            thread::spawn(move || {
                loop {
                    // The lock is held while waiting, and free again when there is a job.
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(job) = next else {
                        return runner;
                    };
                    if sender.send(job(&mut runner)).is_err() {
                        return runner;
                    }
                }
            })
        });
        Self {
            jobs: Some(jobs),
            results,
            threads: threads.collect(),
            durations,
            pending: 0,
        }
    }

    /// Queues a job.
    pub fn submit(
        &mut self,
        job: impl FnOnce(&mut RecoveryRunner) -> Result<R, RunnerError> + Send + 'static,
    ) {
        if let Some(jobs) = &self.jobs {
            // If all threads have died, `collect` reports it.
            let _ = jobs.send(Box::new(job));
            self.pending += 1;
        }
    }

    /// Whether enough jobs are queued to keep all runners busy.
    pub fn is_busy(&self) -> bool {
        self.pending >= 2 * self.threads.len()
    }

    /// How many jobs run at the same time.
    pub fn runners(&self) -> usize {
        self.threads.len()
    }

    /// What a native recovery that passes takes on average, its image included, and from how many that is known.
    pub fn typical_duration(&self) -> (Duration, u64) {
        (self.durations.typical(), self.durations.known())
    }

    pub fn is_idle(&self) -> bool {
        self.pending == 0
    }

    /// The next result; `None` if none arrives for a short time, so that the caller can check whether to stop.
    pub fn collect(&mut self) -> Option<Result<R, RunnerError>> {
        if self.pending == 0 {
            return None;
        }
        match self.results.recv_timeout(POLL_INTERVAL) {
            Ok(result) => {
                self.pending -= 1;
                Some(result)
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                self.pending = 0;
                Some(Err(RunnerError::ThreadDied))
            }
        }
    }

    /// Waits for all jobs and returns the runners.
    pub fn close(mut self) -> Vec<RecoveryRunner> {
        self.jobs = None;
        // A thread that panicked has printed its message, and its runner is lost.
        let threads = self.threads.drain(..);
        threads.filter_map(|thread| thread.join().ok()).collect()
    }
}
