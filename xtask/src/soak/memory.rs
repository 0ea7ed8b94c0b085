//! How much memory the processes of a run take, over time: those of the program, and the recorder.

use std::fs;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::test_directory::TestDirectory;

/// Memory of their own (not files) that some processes had together, in KiB, in order of time.
#[derive(Default, Debug)]
pub struct Samples(Vec<i64>);

/// What was seen of a run.
#[derive(Default, Debug)]
pub struct MemorySamples {
    pub program: Samples,
    /// Nothing if nobody recorded.
    pub recorder: Samples,
}

impl Samples {
    /// Memory in the second third of the run: what it needs.
    pub fn warm(&self) -> i64 {
        let third = self.0.len() / 3;
        typical(&self.0[third..2 * third])
    }

    /// How much more it is in the last third.
    pub fn growth(&self) -> i64 {
        let third = self.0.len() / 3;
        typical(&self.0[2 * third..]) - self.warm()
    }

    fn take(&mut self, processes: &[i32]) {
        let kib = processes.iter().filter_map(|pid| anonymous_kib(*pid)).sum();
        if kib > 0 {
            self.0.push(kib);
        }
    }
}

/// The lower quartile: processes that come and go, and garbage not yet collected, only add.
fn typical(samples: &[i64]) -> i64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 4).copied().unwrap_or(0)
}

/// Runs `work` while the processes of the directory's run are sampled; those of the executable `recorder` for
/// themselves.
pub fn sample<R>(
    interval: Duration,
    directory: &TestDirectory,
    recorder: Option<&Path>,
    work: impl FnOnce() -> R,
) -> (R, MemorySamples) {
    let (finished, stop) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let sampler = scope.spawn(move || {
            let mut seen = MemorySamples::default();
            while stop.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let (recorders, programs): (Vec<i32>, Vec<i32>) = directory
                    .processes()
                    .partition(|pid| is_recorder(*pid, recorder));
                seen.program.take(&programs);
                seen.recorder.take(&recorders);
            }
            seen
        });
        let result = work();
        drop(finished);
        (result, sampler.join().expect("the sampler does not panic"))
    })
}

fn is_recorder(pid: i32, recorder: Option<&Path>) -> bool {
    recorder.is_some() && fs::read_link(format!("/proc/{pid}/exe")).ok().as_deref() == recorder
}

fn anonymous_kib(pid: i32) -> Option<i64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Samples;

    #[test]
    fn what_stays_the_same_does_not_grow() {
        let steady = Samples([5, 9, 9, 9, 12, 9, 9, 90, 9].into());
        assert_eq!((steady.warm(), steady.growth()), (9, 0));
    }

    #[test]
    fn steady_growth_shows() {
        let growing = Samples((0..90).collect());
        assert_eq!(growing.growth(), 30);
    }

    #[test]
    fn a_run_too_short_to_be_sampled_has_no_growth() {
        assert_eq!(Samples::default().growth(), 0);
    }
}
