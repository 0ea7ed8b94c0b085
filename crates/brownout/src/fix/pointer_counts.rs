//! Which pointers functions are given: a further run of the program counts, for each call site of the functions on the way to the stores
//! of findings, how often each argument points to persistent memory and how often elsewhere.
//!
//! A trace has no stores to volatile memory, so it cannot say whether a function also serves that. The program runs in a private view
//! of the file system, from the files with which the recorded run started, and its calls of the functions are watched. A function that
//! is inlined everywhere is not called and has no counts.
//!
//! Can miss: call sites that this run does not get to, as any trace.

use std::ffi::OsString;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use brownout_crash::{CrashError, RecordedRun};
use brownout_engine::WatchedFunction;
use brownout_names::FunctionPattern;
use brownout_recovery::{
    Expectation, HeldRun, Isolation, Recovery, RecoveryRunner, Sandbox, SandboxServerCommand,
};
use brownout_report::Frame;
use brownout_trace::{Address, CallArguments, Definitions, Event, EventKind};
use rustc_hash::FxHashMap;

use crate::arguments::SERVE_SANDBOX;
use crate::console::Console;
use crate::crash_test::{CrashTestMonitor, shell_word};
use crate::failure::Failure;
use crate::race_confirmation::starting_images;
use crate::run_environment::RunEnvironment;
use crate::settings::Settings;
use crate::stacks::{StackId, StackTable};
use crate::trace_file::TraceFile;
use crate::watch_list::watch_list;

/// The run may take so many times as long as the recorded one, and this long in any case.
const RUN_FACTOR: u32 = 10;
const SHORTEST_LIMIT: Duration = Duration::from_secs(30);
/// So many functions are watched at most.
pub const MOST_FUNCTIONS: usize = 100;

/// The calls of a function from one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    pub calls: u64,
    /// For each register, the calls in which it has a pointer to persistent memory.
    pub persistent: [u64; CallArguments::MAX],
    /// For each register, the calls in which it has another value than null.
    pub other: [u64; CallArguments::MAX],
}

impl CallCounts {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        for register in 0..CallArguments::MAX {
            self.persistent[register] += other.persistent[register];
            self.other[register] += other.other[register];
        }
    }
}

/// A call site: file, line and column.
type SiteKey = (Option<String>, Option<u32>, Option<u32>);

/// The calls of functions, by call site.
#[derive(Clone, Debug, Default)]
pub struct PointerCounts {
    by_site: FxHashMap<(String, SiteKey), CallCounts>,
}

fn site(frame: &Frame) -> SiteKey {
    (frame.file.clone(), frame.line, frame.column)
}

impl PointerCounts {
    /// All calls of a function; `None` if it was never called.
    pub fn of_function(&self, function: &str) -> Option<CallCounts> {
        let mut sum = CallCounts::default();
        let sites = self.by_site.iter();
        for (_, counts) in sites.filter(|((name, _), _)| name == function) {
            sum.add(counts);
        }
        (sum.calls > 0).then_some(sum)
    }

    /// The calls of a function at the call site of a frame.
    pub fn at(&self, function: &str, frame: &Frame) -> Option<CallCounts> {
        let key = (function.to_owned(), site(frame));
        self.by_site.get(&key).copied()
    }

    #[cfg(test)]
    pub fn with(mut self, function: &str, frame: &Frame, counts: CallCounts) -> Self {
        let key = (function.to_owned(), site(frame));
        self.by_site.insert(key, counts);
        self
    }

    /// Runs the program again and counts. `Err` in the result says why that was not possible.
    pub fn of_run(
        trace: &mut TraceFile,
        results: &Path,
        functions: &[String],
        settings: &Settings,
        console: &Console,
    ) -> Result<Result<Self, String>, Failure> {
        let selection = trace.select(&settings.patterns, console)?;
        let recorded = RecordedRun::new(trace.path(), selection);
        let mut monitor = CrashTestMonitor::new(None, console);
        monitor.begin_reading(trace.events());
        let files = recorded.files(&mut monitor)?;
        monitor.begin_reading(trace.events());
        let starts = recorded.starting_contents(&files, &mut monitor)?;
        drop(monitor);
        let header = trace.header().clone();
        let server = SandboxServerCommand::this_executable(SERVE_SANDBOX);
        let server = match RunEnvironment::read(results)? {
            Some(environment) => server.with_environment(environment.restored()),
            None => server,
        };
        let program = header.command.first().cloned().unwrap_or_default();
        let target = Recovery::new(shell_word(&program.to_string_lossy()), &header.cwd);
        let sandbox = match Sandbox::start(&server, &target, files.paths()) {
            Ok(sandbox) if sandbox.isolation() == Isolation::Layered => sandbox,
            Ok(_) => return Ok(Err("there is no private view of the file system".to_owned())),
            Err(error) => return Ok(Err(error.to_string())),
        };
        let mut runner = RecoveryRunner::new(sandbox, target, Expectation::Anything);
        let wall = trace.summary().and_then(|summary| summary.ending.wall);
        let limit = (wall.unwrap_or_default() * RUN_FACTOR).max(SHORTEST_LIMIT);
        let watch = watched(functions, &header.cwd, &program);
        let run = HeldRun::recorded(&header.command, &header.pm, &watch, limit);
        let images = starting_images(&starts);
        let images = if images.is_empty() {
            vec![Vec::new()]
        } else {
            images
        };
        for image in images {
            let temporary = tempfile::NamedTempFile::new().map_err(Failure::TemporaryFile)?;
            let file = temporary.reopen().map_err(Failure::TemporaryFile)?;
            let outcome = runner.run_held(&image, &run, &Arc::<File>::new(file));
            outcome.map_err(CrashError::from)?;
            let Ok(mut again) = TraceFile::open(temporary.path()) else {
                continue;
            };
            let counts = count(&mut again, &header.cwd, console)?;
            if !counts.by_site.is_empty() {
                return Ok(Ok(counts));
            }
        }
        Ok(Err("it called none of the functions".to_owned()))
    }
}

fn watched(functions: &[String], cwd: &Path, program: &OsString) -> Vec<WatchedFunction> {
    let patterns: Vec<FunctionPattern> = functions.iter().map(FunctionPattern::new).collect();
    let program: PathBuf = cwd.join(program);
    let names = watch_list(&patterns, &program);
    names.into_iter().map(WatchedFunction::named).collect()
}

/// Counts the calls of a trace.
fn count(
    trace: &mut TraceFile,
    directory: &Path,
    console: &Console,
) -> Result<PointerCounts, Failure> {
    let mut stacks = StackTable::new(directory);
    let mut sites: FxHashMap<StackId, Option<(String, SiteKey)>> = FxHashMap::default();
    let mut found = PointerCounts::default();
    let mut progress = console.progress("counting pointers", Some(trace.events()));
    trace.walk(&mut progress, |event, definitions| {
        stacks.observe(event);
        let EventKind::Call { args, .. } = event.kind else {
            return Ok(ControlFlow::Continue(()));
        };
        let Some(stack) = stacks.stack_of(event, definitions) else {
            return Ok(ControlFlow::Continue(()));
        };
        let key = sites.entry(stack).or_insert_with(|| {
            let frames = stacks.report_frames(stack);
            let own = frames.iter().position(|frame| !frame.inlined)?;
            let function = frames[own].function.clone()?;
            Some((function, site(frames.get(own + 1)?)))
        });
        if let Some(key) = key {
            let counts = found.by_site.entry(key.clone()).or_default();
            note(counts, event, args.as_slice(), definitions);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

fn note(counts: &mut CallCounts, event: &Event<'_>, arguments: &[u64], definitions: &Definitions) {
    counts.calls += 1;
    let process = definitions.process(event.process);
    for (register, &value) in arguments.iter().enumerate().take(CallArguments::MAX) {
        let is_persistent = process
            .is_some_and(|process| process.address_space().mapping_at(Address(value)).is_some());
        match (value, is_persistent) {
            (0, _) => {}
            (_, true) => counts.persistent[register] += 1,
            (_, false) => counts.other[register] += 1,
        }
    }
}
