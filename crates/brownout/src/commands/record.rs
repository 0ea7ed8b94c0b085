//! `brownout record`: runs the target once and records its accesses to persistent memory.
//!
//! Standard output belongs to the target, and so does the exit status once the target runs. brownout's own
//! messages go to standard error.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode as Status;
use std::time::{Duration, Instant};

use brownout_crash::Scope;
use brownout_engine::{Notice, RecordOptions, Recording, StopReason, WatchedFunction};
use brownout_names::FunctionPattern;
use brownout_trace::selection::{Patterns, Selection, Survey};
use brownout_trace::{Definitions, EventClass, EventKind, ProcessEnd, ReadError, TraceReader};

use crate::arguments::{OnFull, RecordArgs};
use crate::console::Console;
use crate::coverage_output;
use crate::crash_test::{RecordedBy, program_file, why_never_called};
use crate::exit_code::ExitCode;
use crate::failure::{Failure, sentence};
use crate::output_directory::sync_file;
use crate::patch_file::{read_plan, write_counts};
use crate::progress::Progress;
use crate::quantity::number_of;
use crate::schedule_output;
use crate::trace_file::TraceFile;
use crate::watch_list::watch_list;

pub fn run(arguments: &RecordArgs, console: &Console) -> Result<Status, Failure> {
    if let Some(earlier) = &arguments.same_as {
        check_earlier(earlier, &arguments.output)?;
    }
    if check_output(&arguments.output)? {
        console.remark(format_args!(
            "`{}` contains an earlier trace, which is replaced",
            arguments.output.display()
        ));
    }
    let recording = record(arguments, None, console)?;
    for note in &recording.notes {
        console.warn(note);
    }
    sync_file(&arguments.output)?;
    warn_if_nothing_persistent(&recording, &arguments.output, console);
    console.remark(format_args!(
        "{}, {} -> {}",
        number_of(recording.counts.total(), "event"),
        number_of(recording.bytes, "byte"),
        arguments.output.display()
    ));
    if let Some(earlier) = &arguments.same_as {
        let scheduled = recording.scheduled.as_ref();
        let traces = (earlier.as_path(), arguments.output.as_path());
        if !schedule_output::compare(traces, scheduled, console)? {
            return Ok(ExitCode::NothingTested.into());
        }
    }
    let failed = !matches!(recording.stopped, None | Some(StopReason::Interrupted));
    if failed && arguments.recording.on_full == OnFull::Stop {
        return Ok(ExitCode::Usage.into());
    }
    Ok(pass_on(recording.end))
}

/// The trace that a recording is compared with must be there before the target runs, and must not be replaced by it.
fn check_earlier(earlier: &Path, output: &Path) -> Result<(), Failure> {
    TraceFile::open(earlier)?;
    let path = |path: &Path| fs::canonicalize(path).ok();
    if path(output).is_some_and(|output| Some(output) == path(earlier)) {
        return Err(Failure::ComparedWithItself {
            path: earlier.to_owned(),
        });
    }
    Ok(())
}

/// A file that is not a trace is not overwritten: `-o` may have been given the path of a pool. Returns whether there is a trace.
fn check_output(path: &Path) -> Result<bool, Failure> {
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0);
    if is_file && matches!(TraceReader::open(path), Err(ReadError::NotATrace)) {
        return Err(Failure::NotOverwritten {
            path: path.to_owned(),
        });
    }
    Ok(is_file)
}

/// Records, and prints a warning if not everything could be. What else went wrong is in the notes, for the caller to print. `scope` is that
/// of a crash test of the trace, if it is already known.
pub fn record(
    arguments: &RecordArgs,
    scope: Option<&Scope>,
    console: &Console,
) -> Result<Recording, Failure> {
    let here = std::env::current_dir().map_err(Failure::CurrentDirectory)?;
    // Report an invalid pattern before the target runs, not after.
    Patterns::new(&arguments.patterns, &here)?;
    let patch_plan = arguments.recording.patch_plan.as_deref();
    let options = RecordOptions {
        command: arguments.recording.command.clone(),
        trace: arguments.output.clone(),
        pm: arguments.patterns.clone(),
        loads: arguments.recording.loads,
        shared_loads: arguments.shared_loads,
        coverage: arguments.recording.coverage.is_some(),
        watch: watched_functions(arguments, scope),
        on_full: match arguments.recording.on_full {
            OnFull::Continue => brownout_engine::OnFull::Continue,
            OnFull::Stop => brownout_engine::OnFull::Stop,
        },
        schedule: arguments.recording.schedule,
        patch: patch_plan.map(read_plan).transpose()?,
        symbolic: Vec::new(),
    };
    let mut line = ProgressLine::new(console);
    let mut reported = false;
    let mut recording = brownout_engine::record(&options, &mut |notice| match notice {
        Notice::Progress { events, bytes } => line.update(events, bytes),
        Notice::Stopped(reason) => {
            line.clear();
            reported = true;
            let then = match arguments.recording.on_full {
                OnFull::Continue => "the program continues without being recorded",
                OnFull::Stop => "the program is killed",
            };
            console.warn(format_args!(
                "recording stopped: {}; {then}",
                sentence(reason)
            ));
        }
        Notice::Waiting => {
            line.clear();
            console.remark("the program has exited; waiting for its child processes");
        }
        _ => {}
    })?;
    line.clear();
    if let (Some(reason), false) = (&recording.stopped, reported) {
        console.warn(format_args!(
            "the trace is incomplete: {}",
            sentence(reason)
        ));
    }
    schedule_output::report(recording.scheduled.as_ref(), console);
    recording.notes.extend(unknown_functions(arguments));
    if let (Some(file), Some(coverage)) = (&arguments.recording.coverage, &recording.coverage) {
        coverage_output::write(coverage, file, arguments.recording.coverage_format, console)?;
    }
    if let (Some(plan), Some(counts)) = (patch_plan, &recording.patched) {
        write_counts(counts, plan)?;
    }
    Ok(recording)
}

/// The functions that the user names, and those that the analyses declare: crash testing, the rules of lint, the types of objects, and
/// the search for races.
fn watched_functions(arguments: &RecordArgs, scope: Option<&Scope>) -> Vec<WatchedFunction> {
    let given: Vec<FunctionPattern> = watched(arguments).collect();
    let scope = scope.into_iter();
    let needed = scope.flat_map(brownout_crash::watched_functions);
    let program = arguments.recording.command.first();
    let program = program_file(Path::new(program.map_or(OsStr::new(""), |program| program)));
    let named = watch_list(given.iter().chain(needed), &program);
    let named = named.into_iter().map(WatchedFunction::named);
    let rules = brownout_lint::watched_functions().map(|function| WatchedFunction {
        name: function.name.into(),
        arguments: function.arguments,
    });
    let heap = brownout_crash::object_types::heap_functions().map(|function| WatchedFunction {
        name: function.name.into(),
        arguments: function.arguments,
    });
    let races = brownout_race::watched_functions().map(|function| WatchedFunction {
        name: function.name.into(),
        arguments: function.arguments,
    });
    // Only loads can race.
    let has_loads = arguments.recording.loads || arguments.shared_loads;
    let races = races.filter(|_| has_loads);
    named.chain(rules).chain(heap).chain(races).collect()
}

/// The functions that `--watch` names.
fn watched(arguments: &RecordArgs) -> impl Iterator<Item = FunctionPattern> {
    let names = arguments.recording.watched.iter();
    names.map(FunctionPattern::new)
}

/// What `--watch` names and was never called, one sentence each.
fn unknown_functions(arguments: &RecordArgs) -> Vec<String> {
    if arguments.recording.watched.is_empty() {
        return Vec::new();
    }
    let Ok(mut trace) = TraceFile::open(&arguments.output) else {
        return Vec::new();
    };
    let mut called: HashSet<String> = HashSet::new();
    let walked = trace.walk(&mut Progress::hidden(), |event, definitions| {
        if let EventKind::Call { function, .. } = event.kind
            && let Some(name) = definitions.function(function)
            && !called.contains(name)
        {
            called.insert(name.to_owned());
        }
        Ok(ControlFlow::Continue(()))
    });
    let (definitions, here) = (trace.definitions(), &trace.header().cwd);
    let is_called = |pattern: &FunctionPattern| {
        let mut called = called.iter();
        called.any(|name| pattern.matches_symbol(name))
    };
    watched(arguments)
        .filter(|pattern| walked.is_ok() && !is_called(pattern))
        .map(|pattern| {
            let why = why_never_called(&pattern, definitions, here, RecordedBy::ThisCommand);
            format!("--watch {}: {why}", pattern.text())
        })
        .collect()
}

/// Exits as the target did.
fn pass_on(end: ProcessEnd) -> Status {
    if let ProcessEnd::Signaled { signal } = end {
        // Returns if the signal does not end a process.
        brownout_engine::die_by(signal);
    }
    Status::from(end.shell_status() as u8)
}

/// Only a warning: the trace may still be what the user wanted.
fn warn_if_nothing_persistent(recording: &Recording, trace: &Path, console: &Console) {
    if recording.counts.of(EventClass::Map) == 0 {
        // An incomplete trace does not show that nothing was mapped.
        if recording.stopped.is_none() {
            console.warn(NOTHING_MAPPED);
        }
        return;
    }
    let Ok(mut trace) = TraceFile::open(trace) else {
        return;
    };
    let Ok(selection) = first_selection(&mut trace) else {
        return;
    };
    if !selection.is_empty() {
        return;
    }
    console.warn(describe_candidates(
        &selection,
        trace.definitions(),
        &trace.header().pm,
    ));
}

/// What the selection rule chooses; returns as soon as it chooses anything.
fn first_selection(trace: &mut TraceFile) -> Result<Selection, Failure> {
    const EVENTS_BETWEEN_CHECKS: u64 = 4096;
    let patterns = trace.patterns(&[])?;
    let mut survey = Survey::default();
    trace.walk(&mut Progress::hidden(), |event, definitions| {
        survey.observe(event, definitions);
        let check = event.index.0 % EVENTS_BETWEEN_CHECKS == EVENTS_BETWEEN_CHECKS - 1;
        let chosen = check && !survey.select(definitions, patterns.as_ref()).is_empty();
        Ok(if chosen {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    })?;
    Ok(survey.select(trace.definitions(), patterns.as_ref()))
}

const NOTHING_PERSISTENT: &str = "nothing persistent was seen: ";
const NOTHING_MAPPED: &str =
    "nothing persistent was seen: the program mapped no file shared and writable";

/// Says which patterns for persistent files match none, with the mapped files whose names are near; `None` if each matches one, or
/// if none does, which [`describe_candidates`] says.
pub fn unmatched_patterns(selection: &Selection, definitions: &Definitions) -> Option<String> {
    let unmatched = selection.unmatched_patterns();
    if unmatched.is_empty() || selection.is_empty() {
        return None;
    }
    let others = selection.candidates().filter(|file| file.reason.is_none());
    let others = others.filter_map(|other| definitions.file(other.file));
    let others: Vec<String> = others.map(|file| file.path.display().to_string()).collect();
    let names = others
        .iter()
        .map(|path| path.rsplit('/').next().unwrap_or(path));
    let names: Vec<&str> = names.collect();
    let sentences = unmatched.iter().map(|pattern| {
        let name = pattern.rsplit('/').next().unwrap_or(pattern);
        let near = brownout_names::nearest(name, names.iter().copied());
        let near = near
            .first()
            .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        format!("no mapped file matches --pm '{pattern}'{near}")
    });
    let mut text = sentences.collect::<Vec<_>>().join("; ");
    text.push_str("; what it stands for was not tested");
    Some(text)
}

/// Why no file was selected, and which files could have been.
pub fn describe_candidates(
    selection: &Selection,
    definitions: &Definitions,
    patterns: &[std::ffi::OsString],
) -> String {
    let why = if patterns.is_empty() {
        "no mapped file was flushed or synced; these were considered:"
    } else {
        "no mapped file matches --pm; these were considered:"
    };
    let mut text = format!("{NOTHING_PERSISTENT}{why}");
    if selection.candidates().next().is_none() {
        return NOTHING_MAPPED.to_owned();
    }
    let paths: Vec<String> = selection
        .candidates()
        .filter_map(|candidate| definitions.file(candidate.file))
        .map(|file| file.path.display().to_string())
        .collect();
    for path in &paths {
        text.push_str("\n  ");
        text.push_str(path);
    }
    if let Some(first) = paths.first() {
        text.push_str(&format!(
            "\nall of them were recorded; select persistent files when reading the trace: --pm '{first}'"
        ));
    }
    text
}

/// A line on the terminal that shows the progress of a recording.
struct ProgressLine {
    started: Instant,
    enabled: bool,
    drawn: bool,
}

impl ProgressLine {
    /// Recordings shorter than this show no progress.
    const FIRST_DRAW: Duration = Duration::from_secs(2);

    fn new(console: &Console) -> Self {
        Self {
            started: Instant::now(),
            enabled: console.redraws(),
            drawn: false,
        }
    }

    fn update(&mut self, events: u64, bytes: u64) {
        let elapsed = self.started.elapsed();
        if self.enabled && elapsed >= Self::FIRST_DRAW {
            self.drawn = true;
            let _ = write!(
                io::stderr(),
                "\r\x1b[K{}",
                describe_progress(events, bytes, elapsed)
            );
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn describe_progress(events: u64, bytes: u64, elapsed: Duration) -> String {
    let rate = events as f64 / elapsed.as_secs_f64();
    format!(
        "recording: {events} events, {rate:.0}/s, {:.1} MB",
        bytes as f64 / 1e6
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::RecordingArgs;

    #[test]
    fn each_function_of_a_crash_test_is_watched_once() {
        let scope = Scope {
            after: Some(FunctionPattern::new("open_pool")),
            operations: vec![FunctionPattern::new("put")],
            ..Scope::default()
        };
        let arguments = RecordArgs {
            patterns: Vec::new(),
            output: "trace".into(),
            shared_loads: false,
            same_as: None,
            recording: RecordingArgs {
                watched: vec!["put".into()],
                ..RecordingArgs::default()
            },
        };
        let watched = watched_functions(&arguments, Some(&scope));
        let names = watched.iter().map(|function| function.name.as_ref());
        let rules = brownout_lint::watched_functions().map(|function| function.name);
        let heap = brownout_crash::object_types::heap_functions().map(|function| function.name);
        let expected = ["put", "open_pool"].into_iter().chain(rules).chain(heap);
        assert!(names.eq(expected), "{watched:?}");
    }

    #[test]
    fn progress_shows_events_rate_and_size() {
        let line = describe_progress(3_000_000, 5_250_000, Duration::from_secs(2));
        assert_eq!(line, "recording: 3000000 events, 1500000/s, 5.2 MB");
    }
}
