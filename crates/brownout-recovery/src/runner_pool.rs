//! Recovery runners side by side, each with a thread of its own.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::run_durations::RunDurations;
use crate::runner::{RecoveryRunner, RunnerError};

/// How long to wait for a result before the caller can check whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a runner waits while all jobs should wait for others. Then it takes the first one anyway.
const LONGEST_DEFERRAL: Duration = Duration::from_millis(200);

type Work<R> = Box<dyn FnOnce(&mut RecoveryRunner) -> Result<R, RunnerError> + Send>;

/// Work for a runner.
struct Job<R> {
    work: Work<R>,
    /// Whether it should wait for another job that runs.
    should_wait: Box<dyn Fn() -> bool + Send>,
}

/// The jobs that no runner has taken yet.
struct Queue<R> {
    jobs: VecDeque<Job<R>>,
    /// Whether there will be no others.
    is_closed: bool,
}

/// What the threads share.
struct Shared<R> {
    queue: Mutex<Queue<R>>,
    changed: Condvar,
}

impl<R> Shared<R> {
    fn queue(&self) -> MutexGuard<'_, Queue<R>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a job; `None` if there will be none.
    fn take(&self) -> Option<Work<R>> {
        let mut queue = self.queue();
        loop {
            let ready = queue.jobs.iter().position(|job| !(job.should_wait)());
            if let Some(job) = ready.and_then(|at| queue.jobs.remove(at)) {
                return Some(job.work);
            }
            if !queue.jobs.is_empty() {
                let waited = self.changed.wait_timeout(queue, LONGEST_DEFERRAL);
                let (after, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                queue = after;
                if timeout.timed_out()
                    && let Some(job) = queue.jobs.pop_front()
                {
                    return Some(job.work);
                }
            } else if queue.is_closed {
                return None;
            } else {
                let waited = self.changed.wait(queue);
                queue = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Runs jobs until there are no more, or nobody wants their results.
    fn work(
        &self,
        mut runner: RecoveryRunner,
        results: &Sender<Result<R, RunnerError>>,
    ) -> RecoveryRunner {
        while let Some(work) = self.take() {
            let result = work(&mut runner);
            // Others may wait for what it has shown.
            self.changed.notify_all();
            if results.send(result).is_err() {
                break;
            }
        }
        runner
    }
}

/// Distributes jobs to runners and collects their results.
pub struct RunnerPool<R> {
    shared: Arc<Shared<R>>,
    results: Receiver<Result<R, RunnerError>>,
    threads: Vec<JoinHandle<RecoveryRunner>>,
    durations: Arc<RunDurations>,
    /// Jobs whose results were not collected yet.
    pending: usize,
}

impl<R> fmt::Debug for RunnerPool<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnerPool")
            .field("runners", &self.threads.len())
            .field("pending", &self.pending)
            .finish_non_exhaustive()
    }
}

impl<R: Send + 'static> RunnerPool<R> {
    pub fn new(mut runners: Vec<RecoveryRunner>) -> Self {
        let durations = RecoveryRunner::share_durations(&mut runners);
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue {
                jobs: VecDeque::new(),
                is_closed: false,
            }),
            changed: Condvar::new(),
        });
        let (sender, results) = channel();
        let threads = runners.into_iter().map(|runner| {
            let (shared, sender) = (Arc::clone(&shared), sender.clone());
            thread::spawn(move || shared.work(runner, &sender))
        });
        Self {
            threads: threads.collect(),
            shared,
            results,
            durations,
            pending: 0,
        }
    }

    /// Queues a job.
    pub fn submit(
        &mut self,
        work: impl FnOnce(&mut RecoveryRunner) -> Result<R, RunnerError> + Send + 'static,
    ) {
        self.submit_unless(|| false, work);
    }

    /// Queues a job that should not begin while `should_wait`: a job that runs may make it unnecessary. Others are taken first.
    pub fn submit_unless(
        &mut self,
        should_wait: impl Fn() -> bool + Send + 'static,
        work: impl FnOnce(&mut RecoveryRunner) -> Result<R, RunnerError> + Send + 'static,
    ) {
        // If all threads have died, `collect` reports it.
        self.shared.queue().jobs.push_back(Job {
            work: Box::new(work),
            should_wait: Box::new(should_wait),
        });
        self.shared.changed.notify_one();
        self.pending += 1;
    }

    /// Whether enough jobs are queued to keep all runners busy, also if several wait for others.
    pub fn is_busy(&self) -> bool {
        let wanted = match self.threads.len() {
            1 => 2,
            runners => 3 * runners,
        };
        self.pending >= wanted
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
        // A thread that panicked has printed its message, and its runner is lost.
        let threads = std::mem::take(&mut self.threads);
        drop(self);
        threads
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .collect()
    }
}

impl<R> Drop for RunnerPool<R> {
    fn drop(&mut self) {
        self.shared.queue().is_closed = true;
        self.shared.changed.notify_all();
    }
}
