//! Measures recording, replay and solving of one path: `path_speed PROGRAM INPUT`.
//!
//! PROGRAM gets INPUT and a number: how often it does its work on it. What one time costs is the difference between runs with several times and
//! with none. The line that is printed: nanoseconds of the work natively and while it is recorded, steps, symbolic steps, bytes of the
//! recording, nanoseconds of its replay, constraints, queries, nanoseconds in the solver, and the peak of memory in KiB.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use brownout_engine::{
    LiveEvents, OnFull, PathRecording, SymbolicSource, Target, TargetOptions, ThreadSchedule,
};
use brownout_symex::{PathConstraints, Solver, VariableTable, replay};

const NATIVE_TIMES: u32 = 20_000;
const RECORDED_TIMES: u32 = 4;
/// The solver gets this long for all queries.
const SOLVER_TIME: Duration = Duration::from_secs(10);
const ROUNDS: usize = 3;

fn main() {
    let words: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [program, input] = &words[..] else {
        eprintln!("path_speed PROGRAM INPUT");
        std::process::exit(2);
    };
    let native = best(|times| native(program, input, times), NATIVE_TIMES);
    let while_recorded = best(|times| recorded(program, input, times).0, RECORDED_TIMES);
    let (_, recording) = recorded(program, input, 1);
    assert!(!recording.is_cut_off, "the path is too long");
    let started = Instant::now();
    let mut variables = VariableTable::default();
    let path = replay(&recording.records, &mut variables, &|_, _| true, &|_| true)
        .unwrap_or_else(|error| panic!("{error}"));
    let replayed = started.elapsed();
    assert_eq!(path.mismatches, []);
    let holds: Vec<_> = path.constraints.iter().map(|it| it.holds).collect();
    let mut constraints = PathConstraints::new(path.dag, holds);
    let mut solver = Solver::new(Duration::from_secs(1));
    let started = Instant::now();
    let choices = { path.constraints.iter().enumerate() }.filter(|(_, it)| it.is_choice());
    for (index, _) in choices.take_while(|_| started.elapsed() < SOLVER_TIME) {
        solver.negate(&mut constraints, index);
    }
    println!(
        "{native} {while_recorded} {} {} {} {} {} {} {} {}",
        path.steps,
        path.symbolic_steps,
        recording.records.len(),
        replayed.as_nanos(),
        path.constraints.len(),
        solver.statistics.queries,
        solver.statistics.time.as_nanos(),
        peak_of_memory()
    );
}

/// Nanoseconds that doing the work once takes, by the best runs.
fn best(run: impl Fn(u32) -> Duration, times: u32) -> u128 {
    let best = |times| (0..ROUNDS).map(|_| run(times)).min().unwrap_or_default();
    let work = best(times).saturating_sub(best(0));
    work.as_nanos() / u128::from(times)
}

fn native(program: &Path, input: &Path, times: u32) -> Duration {
    let started = Instant::now();
    let mut command = Command::new(program);
    command
        .arg(input)
        .arg(times.to_string())
        .stdout(Stdio::null());
    assert!(command.status().is_ok_and(|status| status.success()));
    started.elapsed()
}

fn recorded(program: &Path, input: &Path, times: u32) -> (Duration, PathRecording) {
    let options = TargetOptions {
        command: vec![program.into(), input.into(), times.to_string().into()],
        loads: false,
        locks: false,
        shared_loads: false,
        reads: false,
        coverage: false,
        watch: Vec::new(),
        on_full: OnFull::Stop,
        repetition: None,
        hold: None,
        schedule: Some(ThreadSchedule::of_seed(1)),
        patch: None,
        symbolic: vec![SymbolicSource::File(input.into())],
        client: None,
    };
    let started = Instant::now();
    let target = Target::prepare(&options).unwrap_or_else(|error| panic!("{error}"));
    let run = target.run(LiveEvents::discard(), &mut |_| ());
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    (started.elapsed(), run.path.unwrap_or_default())
}

fn peak_of_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}
