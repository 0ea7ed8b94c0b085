//! Recognises a run that cannot end before its time limit is over.
//!
//! - All its threads wait for each other, without a time limit of their own, and none has run for a while: a deadlock.
//! - It computes, for half of its time limit, and in all that time it has neither read nor written anything new: no byte by
//!   a system call, no page of memory for the first time, and no process has started or ended. A walk of a list that has become a
//!   circle looks like this, whether it counts the entries or not.
//!
//! Processor time counts, so that a busy machine makes no difference. It is that of all threads together, so as much time must have passed
//! on the clock, too. A thread that waits for a time, for a socket or in a system call that is not known here is never taken for stuck.
//! Nothing is recognised if `/proc` does not show the processes of the run.
//!
//! Can miss: threads that wait for each other by polling. Can be wrong: a recovery that computes for so long, in memory that it has already
//! used, and would end.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::process_tree::{descendants, threads_of};
use crate::sys::EndlessWait;

/// How often a run is examined.
const INTERVAL: Duration = Duration::from_millis(250);
/// A run whose threads all wait for each other for so long is stuck.
const DEADLOCK: Duration = Duration::from_millis(1500);
/// The least time of computing without reading or writing anything new.
const LEAST_COMPUTING: Duration = Duration::from_secs(5);

/// Whether a run is stuck.
#[derive(Debug)]
pub struct StallDetector {
    computing_limit: Duration,
    next_look: Instant,
    /// The last progress, with the processor time used by then, and when it was seen.
    progress: Option<(Progress, Duration, Instant)>,
    /// The threads, if all of them wait for each other, and since when they do.
    waiting: Option<(Vec<WaitingThread>, Instant)>,
}

/// What changes as long as a run gets on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Progress {
    processes: Vec<Pid>,
    bytes: u64,
    page_faults: u64,
}

/// A thread that waits for another one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WaitingThread {
    thread: Pid,
    /// How often it was given the processor and lost it.
    switches: u64,
}

impl StallDetector {
    /// For a run that starts now, and that may compute for so long without reading or writing anything new.
    pub fn new(computing: Duration, now: Instant) -> Self {
        Self {
            computing_limit: computing.max(LEAST_COMPUTING),
            next_look: now + INTERVAL,
            progress: None,
            waiting: None,
        }
    }

    /// Examines the run, if it is time for that. Returns whether it is stuck.
    pub fn is_stuck(&mut self, now: Instant) -> bool {
        if now < self.next_look {
            return false;
        }
        self.next_look = now + INTERVAL;
        let processes = descendants()
            .into_iter()
            .filter(|process| !process.is_zombie);
        let processes: Vec<Pid> = processes.map(|process| process.pid).collect();
        !processes.is_empty()
            && (self.is_deadlocked(waiting_threads(&processes), now)
                || self.computes_without_progress(Progress::of(processes), now))
    }

    fn is_deadlocked(&mut self, waiting: Option<Vec<WaitingThread>>, now: Instant) -> bool {
        let Some(waiting) = waiting else {
            self.waiting = None;
            return false;
        };
        match &self.waiting {
            Some((before, since)) if *before == waiting => now.duration_since(*since) >= DEADLOCK,
            _ => {
                self.waiting = Some((waiting, now));
                false
            }
        }
    }

    fn computes_without_progress(
        &mut self,
        seen: Option<(Progress, Duration)>,
        now: Instant,
    ) -> bool {
        match (&self.progress, seen) {
            (Some((before, used_before, since)), Some((progress, used))) if *before == progress => {
                let computed = used.saturating_sub(*used_before);
                computed.min(now.duration_since(*since)) >= self.computing_limit
            }
            (_, seen) => {
                self.progress = seen.map(|(progress, used)| (progress, used, now));
                false
            }
        }
    }
}

impl Progress {
    /// How far these processes are, and the processor time that they have used; `None` if that is not known of all of them.
    fn of(processes: Vec<Pid>) -> Option<(Self, Duration)> {
        let mut progress = Progress {
            processes,
            bytes: 0,
            page_faults: 0,
        };
        let mut ticks = 0;
        for pid in &progress.processes {
            let pid = pid.as_raw_nonzero();
            let status = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let usage = Usage::parse(&status)?;
            let io = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
            progress.bytes += transferred(&io)?;
            progress.page_faults += usage.page_faults;
            ticks += usage.ticks;
        }
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        let used = Duration::from_millis(ticks.saturating_mul(1000) / per_second);
        Some((progress, used))
    }
}

/// What `/proc/PID/stat` says of a process and its threads.
#[derive(Debug, PartialEq, Eq)]
struct Usage {
    page_faults: u64,
    /// Processor time.
    ticks: u64,
}

impl Usage {
    /// The name, in parentheses, may contain any character.
    fn parse(status: &str) -> Option<Self> {
        let fields = status[status.rfind(')')? + 1..].split_ascii_whitespace();
        // From the state on, which is field 3 of `proc(5)`.
        let numbers: Vec<u64> = fields.map(|field| field.parse().unwrap_or(0)).collect();
        let field = |number: usize| numbers.get(number - 3).copied();
        Some(Usage {
            page_faults: field(10)? + field(12)?,
            ticks: field(14)? + field(15)?,
        })
    }
}

/// The bytes that a process has read and written, and the calls it took, by `/proc/PID/io`.
fn transferred(io: &str) -> Option<u64> {
    let value = |name: &str| -> Option<u64> {
        let line = io.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    let names = ["rchar:", "wchar:", "syscr:", "syscw:"];
    names.into_iter().map(value).sum()
}

/// The threads of these processes, if each of them waits for another one and none for anything else.
fn waiting_threads(processes: &[Pid]) -> Option<Vec<WaitingThread>> {
    let mut waiting = Vec::new();
    for &process in processes {
        for thread in threads_of(process) {
            let directory = format!(
                "/proc/{}/task/{}",
                process.as_raw_nonzero(),
                thread.as_raw_nonzero()
            );
            let call = fs::read_to_string(format!("{directory}/syscall")).ok()?;
            let is_pipe = |descriptor: u64| {
                let link = fs::read_link(format!("{directory}/fd/{descriptor}"));
                link.is_ok_and(|link| link.as_os_str().as_encoded_bytes().starts_with(b"pipe:"))
            };
            if !waits_for_others(&call, is_pipe) {
                return None;
            }
            let status = fs::read_to_string(format!("{directory}/status")).ok()?;
            let switches = switches(&status);
            waiting.push(WaitingThread { thread, switches });
        }
    }
    Some(waiting)
}

/// Whether a thread in this system call, a line of `/proc/TID/syscall`, continues only if another thread or process does
/// something.
fn waits_for_others(call: &str, is_pipe: impl Fn(u64) -> bool) -> bool {
    // A number and six arguments, in hexadecimal, then the stack pointer and the instruction pointer; `running` if it waits for nothing.
    let mut words = call.split_ascii_whitespace();
    let Some(Ok(number)) = words.next().map(str::parse) else {
        return false;
    };
    let arguments: Vec<u64> = words
        .filter_map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok())
        .collect();
    match EndlessWait::of(number, &arguments) {
        Some(EndlessWait::Others) => true,
        Some(EndlessWait::Transfer(descriptor)) => is_pipe(descriptor),
        None => false,
    }
}

/// How often a thread was given the processor and lost it, by `/proc/TID/status`.
fn switches(status: &str) -> u64 {
    let lines = status.lines().filter_map(|line| line.split_once(':'));
    let switches = lines.filter(|(name, _)| name.ends_with("ctxt_switches"));
    switches
        .filter_map(|(_, number)| number.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    #[test]
    fn a_running_thread_waits_for_nothing() {
        assert!(!waits_for_others("running\n", |_| true));
        assert!(!waits_for_others("-1 0x7ffc 0x7f12\n", |_| true));
        assert!(!waits_for_others("", |_| true));
    }

    #[test]
    fn names_of_processes_are_not_mistaken_for_numbers() {
        let status = "7 (a) 1 2) R 1 7 7 0 -1 0 11 0 13 0 100 50 0 0 20 0 1 0";
        let usage = Usage {
            page_faults: 24,
            ticks: 150,
        };
        assert_eq!(Usage::parse(status), Some(usage));
        assert_eq!(
            transferred("rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\n"),
            Some(10)
        );
        assert_eq!(transferred(""), None);
        let status = "voluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n";
        assert_eq!(switches(status), 7);
    }

    fn progress(bytes: u64) -> Progress {
        Progress {
            processes: Vec::new(),
            bytes,
            page_faults: 0,
        }
    }

    /// Whether a recovery is stuck that may compute for five seconds, given the bytes it has transferred, the seconds of processor time it
    /// has used, and those on the clock.
    fn computing() -> impl FnMut(u64, u64, u64) -> bool {
        let start = Instant::now();
        let mut detector = StallDetector::new(Duration::from_secs(5), start);
        move |bytes, used, seconds| {
            let seen = Some((progress(bytes), Duration::from_secs(used)));
            detector.computes_without_progress(seen, start + Duration::from_secs(seconds))
        }
    }

    #[test]
    fn computing_counts_from_the_last_progress_on() {
        let mut at = computing();
        assert!(!at(1, 0, 0));
        assert!(!at(1, 4, 4));
        assert!(!at(2, 6, 6), "it has read something");
        assert!(!at(2, 10, 10));
        assert!(at(2, 11, 11));
    }

    #[test]
    fn many_threads_have_as_much_time_as_one() {
        let mut at = computing();
        assert!(!at(1, 0, 0));
        assert!(!at(1, 32, 4), "eight threads");
        assert!(at(1, 40, 5));
    }

    #[test]
    fn time_on_the_clock_is_not_enough() {
        let mut at = computing();
        assert!(!at(1, 0, 0));
        assert!(!at(1, 4, 60), "a busy machine");
    }

    #[test]
    fn threads_that_ran_in_between_are_not_deadlocked() {
        let start = Instant::now();
        let mut detector = StallDetector::new(Duration::from_secs(5), start);
        let waiting = |switches| {
            let thread = Pid::from_raw(7).unwrap();
            Some(vec![WaitingThread { thread, switches }])
        };
        let later = |seconds| start + Duration::from_secs(seconds);
        assert!(!detector.is_deadlocked(waiting(1), start));
        assert!(!detector.is_deadlocked(waiting(2), later(2)));
        assert!(!detector.is_deadlocked(None, later(3)));
        assert!(!detector.is_deadlocked(waiting(2), later(4)));
        assert!(detector.is_deadlocked(waiting(2), later(6)));
    }

    /// A detector looks at all children of the process: only one test at a time has some.
    static CHILDREN: Mutex<()> = Mutex::new(());

    /// A child that is killed at the end of the test.
    struct Child {
        process: std::process::Child,
        _alone: MutexGuard<'static, ()>,
    }

    impl Child {
        fn start(script: &str) -> Self {
            let alone = CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
            let mut command = std::process::Command::new("sh");
            let command = command
                .args(["-c", script])
                .stdout(std::process::Stdio::null());
            Child {
                process: command.spawn().unwrap(),
                _alone: alone,
            }
        }
    }

    impl Drop for Child {
        fn drop(&mut self) {
            // It may have ended by itself.
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }

    /// Only computing counts, not waiting.
    fn detector() -> StallDetector {
        StallDetector {
            computing_limit: Duration::from_millis(200),
            ..StallDetector::new(Duration::ZERO, Instant::now())
        }
    }

    #[test]
    fn a_loop_without_progress_is_stuck() {
        let _child = Child::start("while :; do :; done");
        let mut detector = detector();
        let start = Instant::now();
        while !detector.is_stuck(Instant::now()) {
            assert!(start.elapsed() < Duration::from_secs(120));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_loop_that_writes_is_not_stuck() {
        let _child = Child::start("while :; do echo; done");
        let mut detector = detector();
        for _ in 0..12 {
            assert!(!detector.is_stuck(Instant::now()));
            std::thread::sleep(INTERVAL);
        }
    }
}
