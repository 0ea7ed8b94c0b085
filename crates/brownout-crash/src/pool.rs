//! Benches side by side, each with a thread of its own.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::bench::{Bench, BenchError};

/// How long to wait for a result.
const GLANCE: Duration = Duration::from_millis(50);

type Job<R> = Box<dyn FnOnce(&mut Bench) -> Result<R, BenchError> + Send>;

/// Gives jobs to benches and collects what comes of them.
#[derive(Debug)]
pub struct Pool<R> {
    jobs: Option<Sender<Job<R>>>,
    results: Receiver<Result<R, BenchError>>,
    threads: Vec<JoinHandle<Bench>>,
    /// Jobs whose results were not collected yet.
    pending: usize,
}

impl<R: Send + 'static> Pool<R> {
    pub fn new(benches: Vec<Bench>) -> Self {
        let (jobs, queue) = channel::<Job<R>>();
        let (sender, results) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let threads = benches.into_iter().map(|mut bench| {
            let (queue, sender) = (Arc::clone(&queue), sender.clone());
            thread::spawn(move || {
                loop {
                    // The lock is held while waiting, and free again when there is a job.
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(job) = next else {
                        return bench;
                    };
                    if sender.send(job(&mut bench)).is_err() {
                        return bench;
                    }
                }
            })
        });
        Self {
            jobs: Some(jobs),
            results,
            threads: threads.collect(),
            pending: 0,
        }
    }

    /// Hands in a job.
    pub fn submit(
        &mut self,
        job: impl FnOnce(&mut Bench) -> Result<R, BenchError> + Send + 'static,
    ) {
        if let Some(jobs) = &self.jobs {
            // A pool whose threads are gone gives no results, which the collector notices.
            let _ = jobs.send(Box::new(job));
            self.pending += 1;
        }
    }

    /// Whether all benches have enough to do for now.
    pub fn is_busy(&self) -> bool {
        self.pending >= 2 * self.threads.len()
    }

    pub fn is_idle(&self) -> bool {
        self.pending == 0
    }

    /// The next result if there is one soon; if not, there is time to look whether to stop.
    pub fn collect(&mut self) -> Option<Result<R, BenchError>> {
        if self.pending == 0 {
            return None;
        }
        match self.results.recv_timeout(GLANCE) {
            Ok(result) => {
                self.pending -= 1;
                Some(result)
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                self.pending = 0;
                Some(Err(BenchError::Lost))
            }
        }
    }

    /// Gives the benches back, when all jobs are done.
    pub fn close(mut self) -> Vec<Bench> {
        self.jobs = None;
        // A thread that panicked has said so, and its bench is lost.
        let threads = self.threads.drain(..);
        threads.filter_map(|thread| thread.join().ok()).collect()
    }
}
