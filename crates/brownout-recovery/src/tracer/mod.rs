//! Finds out where recovery was when it failed, by tracing it.
//!
//! Stacks are taken at fatal signals, at exits with a status other than 0, and at the time limit. There is no stack after
//! `SIGKILL`, on a machine that forbids tracing, or if `/proc` does not show the processes of the namespace; the run then
//! continues without.

mod modules;
mod stack;

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use self::modules::ModuleCache;
use super::process_tree::{descendants, threads_of};
use super::shells::is_shell;
use super::sys::{self, Fork, SystemCall, TraceStop, fork_into, with_open_signals};
use super::{End, Errno, RawFrame};

pub use super::sys::resume;

/// Failures that are remembered, the newest.
const REMEMBERED: usize = 64;
/// How long to wait for threads to stop at the time limit.
const STOPPING: Duration = Duration::from_millis(500);
/// Programs by which scripts compare what the checked program printed or left with what is expected. Their status is a result, and
/// where they exit says nothing.
const COMPARING: [&str; 14] = [
    "diff",
    "cmp",
    "comm",
    "grep",
    "egrep",
    "fgrep",
    "test",
    "[",
    "expr",
    "false",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "timeout",
];

/// Which part a process has in a recovery, the most interesting first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// What is checked, or checks.
    Program,
    Comparing,
    Shell,
}

/// How a process of the run failed, and where.
#[derive(Debug)]
struct Failure {
    end: End,
    part: Part,
    frames: Vec<RawFrame>,
}

/// Finds out where recoveries fail.
#[derive(Debug, Default)]
pub struct Tracer {
    cache: ModuleCache,
    failures: Vec<Failure>,
}

impl Tracer {
    /// Forgets the previous run.
    pub fn begin(&mut self) {
        self.failures.clear();
    }

    /// Handles the stop of a traced thread. Returns whether the status was one.
    pub fn handle(&mut self, thread: Pid, status: WaitStatus) -> bool {
        let Some(signal) = status.stopping_signal() else {
            return false;
        };
        // A thread that cannot be resumed has been killed.
        let _ = match TraceStop::of(status) {
            TraceStop::Signal => {
                if is_fatal(thread, signal) {
                    self.remember(thread, End::Signaled(signal));
                }
                resume(thread, signal)
            }
            TraceStop::Exit => {
                if let Some(status) = exit_status(thread).filter(|&status| status != 0) {
                    self.remember(thread, End::Exited(status));
                }
                resume(thread, 0)
            }
            TraceStop::Stop if is_stop_signal(signal) => sys::leave_stopped(thread),
            _ => resume(thread, 0),
        };
        true
    }

    fn remember(&mut self, thread: Pid, end: End) {
        let Ok((registers, _)) = sys::registers(thread) else {
            return;
        };
        if self.failures.len() == REMEMBERED {
            self.failures.remove(0);
        }
        let frames = stack::unwind(thread, registers, &mut self.cache);
        self.failures.push(Failure {
            end,
            part: Part::of(thread),
            frames,
        });
    }

    /// Where a run failed that ended with `end`; nothing if no program failed.
    ///
    /// A shell ends as its last command did. So the process that failed is the last program that ended in this way. If there is none, the
    /// script has noticed by other means, such as `diff`, what a program did wrong: the last one that crashed, or else the last one that
    /// failed.
    pub fn frames(&self, end: End) -> Vec<RawFrame> {
        let same = |failure: &Failure| match (end, failure.end) {
            (End::Exited(status), End::Signaled(signal)) => status == 128 + signal,
            (end, other) => end == other,
        };
        let crashed = |failure: &Failure| matches!(failure.end, End::Signaled(_));
        let last = |wanted: &dyn Fn(&Failure) -> bool| {
            let programs = self.failures.iter().rev();
            let mut programs = programs.filter(|failure| failure.part == Part::Program);
            programs.find(|failure| wanted(failure))
        };
        last(&same)
            .or_else(|| last(&crashed))
            .or_else(|| last(&|_| true))
            .map_or_else(Vec::new, |failure| failure.frames.clone())
    }

    /// Where a run is at its time limit: the stack of the thread that most likely keeps it from ending. Leaves all threads
    /// stopped.
    pub fn frames_now(&mut self) -> Vec<RawFrame> {
        let threads: Vec<Pid> = descendants()
            .iter()
            .filter(|process| !process.is_zombie)
            .flat_map(|process| threads_of(process.pid))
            .collect();
        for &thread in &threads {
            // Fails for a thread that is already stopped.
            let _ = sys::interrupt(thread);
        }
        await_stops(threads.len());
        let hanging = threads
            .into_iter()
            .filter_map(|thread| {
                let (registers, call) = sys::registers(thread).ok()?;
                Some((Part::of(thread), waits_for_others(call), thread, registers))
            })
            .min_by_key(|&(part, rank, thread, _)| (part, rank, thread.as_raw_nonzero()));
        hanging.map_or_else(Vec::new, |(.., thread, registers)| {
            stack::unwind(thread, registers, &mut self.cache)
        })
    }
}

/// Starts a command and traces it from its first instruction on, if that is possible here.
pub fn start(mut command: Command) -> io::Result<Pid> {
    let (mut admission, mut admit) = io::pipe()?;
    let (mut fault, mut report) = io::pipe()?;
    match fork_into(&[])? {
        Fork::Child => {
            drop((admit, fault));
            if admission.read_exact(&mut [0]).is_ok() {
                let error = with_open_signals(|| command.exec());
                let Errno(errno) = error.into();
                let _ = report.write_all(&errno.to_le_bytes());
            }
            // An exit here would be mistaken for one of recovery; the parent kills this process.
            loop {
                std::thread::park();
            }
        }
        Fork::Parent(child) => {
            drop((admission, report));
            if shows_own_processes() {
                // If tracing is forbidden, there are no stacks.
                let _ = sys::seize(child);
            }
            admit.write_all(&[1])?;
            // Starting the command closes the other end.
            let mut errno = [0; 4];
            if fault.read_exact(&mut errno).is_err() {
                return Ok(child);
            }
            let _ = rustix::process::kill_process(child, Signal::KILL);
            Err(io::Error::from_raw_os_error(i32::from_le_bytes(errno)))
        }
    }
}

/// Whether `/proc` belongs to the PID namespace of this process.
fn shows_own_processes() -> bool {
    let this = std::process::id().to_string();
    fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() == this.as_str())
}

/// Waits until so many threads have stopped, for a limited time.
fn await_stops(threads: usize) {
    let deadline = Instant::now() + STOPPING;
    let mut stopped = 0;
    while stopped < threads && Instant::now() < deadline {
        match rustix::process::wait(WaitOptions::NOHANG | sys::ALL_CHILDREN) {
            Ok(Some(_)) => stopped += 1,
            Ok(None) => std::thread::sleep(Duration::from_millis(1)),
            Err(_) => return,
        }
    }
}

/// How likely a thread only waits for another: 0 for one that computes, more for one that waits for others.
fn waits_for_others(call: SystemCall) -> u32 {
    match call {
        SystemCall::None => 0,
        SystemCall::Wait => 3,
        SystemCall::Futex => 2,
        _ => 1,
    }
}

/// The status that a process exits with; `None` if only a thread ends, or by a signal.
fn exit_status(thread: Pid) -> Option<i32> {
    let message = sys::event_message(thread).ok()? as i32;
    let (_, call) = sys::registers(thread).ok()?;
    let is_exit = match call {
        SystemCall::ExitGroup => true,
        SystemCall::Exit => threads_of(thread) == [thread],
        _ => false,
    };
    (is_exit && message & 0x7f == 0).then_some(message >> 8 & 0xff)
}

/// Whether a signal ends this process: its default action is fatal, and it is neither caught nor ignored.
fn is_fatal(thread: Pid, signal: i32) -> bool {
    const HARMLESS: [Signal; 4] = [Signal::CHILD, Signal::CONT, Signal::URG, Signal::WINCH];
    if is_among(signal, &HARMLESS) || is_stop_signal(signal) {
        return false;
    }
    let path = format!("/proc/{}/status", thread.as_raw_nonzero());
    let status = fs::read_to_string(path).unwrap_or_default();
    let is_in = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
    };
    !is_in("SigCgt:") && !is_in("SigIgn:")
}

fn is_stop_signal(signal: i32) -> bool {
    is_among(
        signal,
        &[Signal::STOP, Signal::TSTP, Signal::TTIN, Signal::TTOU],
    )
}

fn is_among(signal: i32, signals: &[Signal]) -> bool {
    signals.iter().any(|known| known.as_raw() == signal)
}

impl Part {
    fn of(thread: Pid) -> Self {
        let program = fs::read_link(format!("/proc/{}/exe", thread.as_raw_nonzero()));
        let program = program.unwrap_or_default();
        let name = program.file_name().unwrap_or_default();
        if name.to_str().is_some_and(is_shell) {
            Part::Shell
        } else if COMPARING.iter().any(|comparing| name == *comparing) {
            Part::Comparing
        } else {
            Part::Program
        }
    }
}
