//! `brownout replay`: repeats the crash of one finding.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use brownout_crash::rules::{UNPERSISTED_READ, rule_of};
use brownout_crash::{
    CrashError, CrashImage, CrashSituation, PersistentFiles, RecordedRun, Token, TokenError,
    failing_frames, interrupt,
};
use brownout_recovery::{
    Expectation, Recovery, RecoveryRunner, RecoveryTask, Sandbox, SandboxServerCommand, Verdict,
    under_debugger,
};
use brownout_report::Finding;
use brownout_trace::{EventIndex, TraceReader};

use super::replay_input;
use crate::arguments::{ReplayArgs, SERVE_SANDBOX};
use crate::console::Console;
use crate::crash_test::{CrashSymbols, CrashTestMonitor, PointFilters};
use crate::exit_code::ExitCode;
use crate::expected_output::ExpectedOutput;
use crate::failure::Failure;
use crate::output_directory::OutputDirectory;
use crate::quantity::number_of;
use crate::rules;
use crate::run_environment::RunEnvironment;
use crate::stored_results::read_findings;
use crate::trace_file::TraceFile;

/// The time limit of recovery if the token has none.
const TIME_LIMIT: Duration = Duration::from_secs(60);

pub fn run(arguments: &ReplayArgs, console: &Console) -> Result<ExitCode, Failure> {
    if let Some(finding) = find_about_input(&arguments.directory, &arguments.finding)? {
        return replay_input::replay(arguments, &finding, console);
    }
    let (trace, token, finding) = find(&arguments.directory, &arguments.finding, console)?;
    let server = sandbox_server(&arguments.directory)?;
    let mut file = TraceFile::open(&trace)?;
    let mut trace = trace;
    if let Some(forced) = forced_trace(&arguments.directory, &token, &file)? {
        file = TraceFile::open(&forced)?;
        trace = forced;
    }
    if token.trace != file.identity() {
        // A cut trace has another size; that is the better explanation.
        let other = Failure::OtherTrace { path: trace };
        return Err(file.damage().unwrap_or(other));
    }
    if token.point.event > file.events() {
        return Err(Failure::NoSuchEvent {
            path: trace,
            event: EventIndex(token.point.event),
            events: file.events(),
        });
    }
    let patterns: Vec<_> = token.patterns.iter().map(Into::into).collect();
    let selection = file.select(&patterns, console)?;
    if let Some(damage) = file.damage() {
        return Err(damage);
    }
    let run = RecordedRun::new(&trace, selection);
    let mut monitor = CrashTestMonitor::new(None, console);
    monitor.begin_reading(file.events());
    let files = run.files(&mut monitor)?;
    let image = run.image_at(&token.point, &files, &mut monitor)?;
    drop(monitor);
    let image = interrupted_image(&token, image, &files, &server)?;
    if let Some(target) = &arguments.keep {
        return keep(&image, &files, target);
    }
    if arguments.gdb {
        if let Some(finding) = &finding {
            show_open_reads(finding)?;
        }
        return debug(&token, &image, &files, &server);
    }
    let mut symbols = CrashSymbols::new(&file.header().cwd, PointFilters::default());
    let expected = expectation(&token, &arguments.directory, console)?;
    let mut runner = runner(&token.recovery, expected, &files, &server)?;
    let verdict = recover(&token, &image, &mut runner, &mut symbols, console)?;
    if let Some(finding) = finding.filter(|finding| !is_as_before(finding, &verdict)) {
        let was = match finding.message.split_once(" after power is lost") {
            Some((was, _)) if rules::is_crash_rule(&finding.rule) => format!("\"{was}\""),
            _ => finding.rule,
        };
        console.warn(format_args!(
            "the result differs from the earlier one, which was {was}; the program, or files other than the persistent ones, \
             may have changed"
        ));
    }
    Ok(if verdict.passed() {
        ExitCode::Success
    } else {
        ExitCode::BugsFound
    })
}

/// Whether recovery ends as the finding says.
fn is_as_before(finding: &Finding, verdict: &Verdict) -> bool {
    let now = rule_of(verdict).map(|rule| rule.id);
    let rule = finding.rule.as_str();
    if !rules::is_crash_rule(rule) {
        // A finding of lint is confirmed by any failure of recovery.
        return now.is_some();
    }
    // It does not say how recovery ends.
    if rule == UNPERSISTED_READ.id {
        return true;
    }
    let says = finding.message.strip_prefix("recovery ");
    let is_same_end = says.is_none_or(|says| says.starts_with(&format!("{verdict} after ")));
    now == Some(rule) && is_same_end
}

/// The trace of the token, if it is not that of the recorded run but one in which a race was forced.
fn forced_trace(
    directory: &Path,
    token: &Token,
    recorded: &TraceFile,
) -> Result<Option<PathBuf>, Failure> {
    if !directory.is_dir() || token.trace == recorded.identity() {
        return Ok(None);
    }
    let (results, ..) = OutputDirectory::open(directory)?;
    let mut traces = results.forced_traces().into_iter();
    Ok(traces.find(|path| TraceFile::open(path).is_ok_and(|file| file.identity() == token.trace)))
}

/// The image after recoveries that are interrupted, too: they run again, under the engine, until the same action.
fn interrupted_image(
    token: &Token,
    image: CrashImage,
    files: &PersistentFiles,
    server: &SandboxServerCommand,
) -> Result<CrashImage, Failure> {
    let interruptions = &token.point.interruptions;
    if interruptions.is_empty() {
        return Ok(image);
    }
    let mut runner = runner(&token.recovery, Expectation::Anything, files, server)?;
    let chain = interrupt(&mut runner, &image, interruptions, &situation(token), files);
    let chain = chain.map_err(CrashError::from)??;
    Ok(chain.map_or(image, |chain| chain.image))
}

/// The trace, the token, and the finding if it is known.
fn find(
    directory: &Path,
    finding: &str,
    console: &Console,
) -> Result<(PathBuf, Token, Option<Finding>), Failure> {
    let given: Option<Token> = match finding.parse() {
        Ok(token) => Some(token),
        Err(error @ TokenError::OtherVersion { .. }) => return Err(error.into()),
        Err(_) => None,
    };
    if directory.is_file() {
        let opened = TraceReader::open(directory);
        opened.map_err(|error| Failure::trace(directory, error))?;
        let token = given.ok_or(Failure::TokenWanted)?;
        return Ok((directory.to_owned(), token, None));
    }
    let (results, ..) = OutputDirectory::open(directory)?;
    let findings = read_findings(&results)?;
    if let Some(token) = given {
        let is_of_token = |known: &&Finding| known.replay.as_deref() == Some(finding);
        // A crash can show a finding of lint and be one itself, which says what recovery could have read.
        let of_token = findings.iter().filter(is_of_token);
        let known = of_token.max_by_key(|known| known.evidence.open_reads.len());
        let trace = trace_of(&results, directory, known)?;
        return Ok((trace, token, known.cloned()));
    }
    let mut matching = findings
        .iter()
        .filter(|known| known.id.as_str().starts_with(finding));
    let (Some(found), None) = (matching.next(), matching.next()) else {
        return Err(Failure::NoSuchFinding {
            path: directory.to_owned(),
            finding: finding.to_owned(),
        });
    };
    let shown = with_crash(found, &findings, console);
    let trace = trace_of(&results, directory, Some(shown))?;
    Ok((trace, token_of(shown)?, Some(shown.clone())))
}

/// The trace that shows a finding: that of the results, or of results inside of them.
fn trace_of(
    results: &OutputDirectory,
    directory: &Path,
    finding: Option<&Finding>,
) -> Result<PathBuf, Failure> {
    match finding.and_then(Finding::results_in) {
        Some(inside) => OutputDirectory::open(&directory.join(inside))?.0.trace(),
        None => results.trace(),
    }
}

/// The finding with this id, if it is one that is replayed by running the program on its input.
fn find_about_input(directory: &Path, id: &str) -> Result<Option<Finding>, Failure> {
    if directory.is_file() {
        return Ok(None);
    }
    let (results, ..) = OutputDirectory::open(directory)?;
    let findings = read_findings(&results)?;
    let mut matching = findings
        .iter()
        .filter(|known| known.id.as_str().starts_with(id));
    let (Some(found), None) = (matching.next(), matching.next()) else {
        return Ok(None);
    };
    let explains = |crash: &Finding| crash.cause.as_ref() == Some(&found.id);
    let is_explanation = findings
        .iter()
        .any(|crash| explains(crash) && crash.crash_token().is_some());
    Ok(Some(found.clone()).filter(|found| !is_explanation && replay_input::is_about_input(found)))
}

/// The finding, or a failed recovery that it explains if it has no crash of its own.
fn with_crash<'f>(found: &'f Finding, findings: &'f [Finding], console: &Console) -> &'f Finding {
    if found.crash_token().is_some() {
        return found;
    }
    let mut crashes = findings
        .iter()
        .filter(|crash| crash.cause.as_ref() == Some(&found.id) && crash.crash_token().is_some());
    let Some(crash) = crashes.next() else {
        return found;
    };
    console.remark(format_args!(
        "{} explains {} ({}), which is replayed",
        found.id, crash.id, crash.rule
    ));
    crash
}

fn token_of(finding: &Finding) -> Result<Token, Failure> {
    let token = finding.replay.as_deref().unwrap_or_default();
    token.parse().map_err(|error| match error {
        TokenError::OtherVersion { .. } => error.into(),
        _ => Failure::NotReplayed {
            finding: finding.id.to_string(),
            rule: finding.rule.clone(),
            why: match finding.confirmed {
                Some(_) => "recovery passed on every crash image that was tried for it",
                None => "no recovery was run for it",
            },
        },
    })
}

fn keep(image: &CrashImage, files: &PersistentFiles, target: &Path) -> Result<ExitCode, Failure> {
    if target.exists() {
        return Err(Failure::ImageExists {
            path: target.to_owned(),
        });
    }
    let written = image
        .write_to(target, files.paths())
        .map_err(|source| Failure::Image {
            path: target.to_owned(),
            source,
        })?;
    let mut out = io::stdout().lock();
    for path in written {
        writeln!(out, "{}", path.display()).map_err(Failure::Output)?;
    }
    Ok(ExitCode::Success)
}

/// Recoveries have the environment of the run, if the directory has it.
fn sandbox_server(directory: &Path) -> Result<SandboxServerCommand, Failure> {
    let server = SandboxServerCommand::this_executable(SERVE_SANDBOX);
    Ok(match RunEnvironment::read(directory) {
        Ok(Some(environment)) => server.with_environment(environment.restored()),
        Ok(None) => server,
        // A trace is no directory.
        Err(_) if directory.is_file() => server,
        Err(failure) => return Err(failure),
    })
}

/// What recovery has to print, as far as it is known.
fn expectation(token: &Token, directory: &Path, console: &Console) -> Result<Expectation, Failure> {
    let Some(digest) = &token.expected else {
        return Ok(Expectation::Anything);
    };
    if directory.is_dir() {
        let expected = ExpectedOutput::read(directory)?;
        if expected.digest() == *digest {
            return Ok(expected);
        }
    }
    console.warn(
        "the output of recovery is not compared with the expected output, which is not known here; \
         give the results directory of the test to compare it",
    );
    Ok(Expectation::Anything)
}

fn runner(
    recovery: &Recovery,
    expected: Expectation,
    files: &PersistentFiles,
    server: &SandboxServerCommand,
) -> Result<RecoveryRunner, Failure> {
    let sandbox = Sandbox::start(server, recovery, files.paths()).map_err(CrashError::from)?;
    Ok(RecoveryRunner::new(sandbox, recovery.clone(), expected))
}

fn situation(token: &Token) -> CrashSituation {
    CrashSituation {
        event: token.point.event,
        operation: token.operation,
        time_limit: token.time_limit.map_or(TIME_LIMIT, Duration::from_millis),
    }
}

fn task(token: &Token) -> RecoveryTask {
    situation(token).task()
}

/// Prints which of several stores the loads of recovery read after this crash, so that the place to stop at is known.
fn show_open_reads(finding: &Finding) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let sentences = finding.open_read_sentences();
    for sentence in sentences.chain(finding.more_open_reads_sentence()) {
        writeln!(out, "{sentence}").map_err(Failure::Output)?;
    }
    out.flush().map_err(Failure::Output)
}

/// How recovery is debugged: it stops where it crashes, or else where it exits, and shows the stack there.
const GDB: &str = "gdb -q -ex 'set follow-fork-mode child' -ex 'catch syscall exit_group' -ex run -ex backtrace --args";

/// Hands the terminal over to the debugger.
fn debug(
    token: &Token,
    image: &CrashImage,
    files: &PersistentFiles,
    server: &SandboxServerCommand,
) -> Result<ExitCode, Failure> {
    let mut recovery = token.recovery.clone();
    recovery.command = under_debugger(GDB, &recovery.command, &recovery.directory);
    recovery.client = None;
    recovery.ready = None;
    let mut runner = runner(&recovery, Expectation::Anything, files, server)?;
    runner
        .run_interactively(&image.files, &task(token))
        .map_err(CrashError::from)?;
    Ok(ExitCode::Success)
}

fn recover(
    token: &Token,
    image: &CrashImage,
    runner: &mut RecoveryRunner,
    symbols: &mut CrashSymbols,
    console: &Console,
) -> Result<Verdict, Failure> {
    let attempt = runner
        .attempt(&image.files, &task(token))
        .map_err(CrashError::from)?;
    let frames = failing_frames(&attempt.frames, symbols);
    let mut out = io::stdout().lock();
    let mut print = || -> io::Result<()> {
        for line in &attempt.output {
            writeln!(out, "{line}")?;
        }
        write!(
            out,
            "recovery {} after a crash before event {}",
            attempt.verdict, token.point.event
        )?;
        for interruption in &token.point.interruptions {
            let actions = number_of(interruption.actions, "action");
            write!(
                out,
                " and a crash inside recovery after {actions} on persistent memory"
            )?;
        }
        writeln!(out)?;
        for frame in &frames {
            writeln!(out, "    {frame}")?;
        }
        if frames.is_empty() && !attempt.frames.is_empty() {
            writeln!(
                out,
                "    (`main` had returned; a recovery that calls `exit` or `abort` where it finds damage shows that line)"
            )?;
        }
        Ok(())
    };
    print().map_err(Failure::Output)?;
    if let Some(again) = &attempt.second_verdict {
        console.remark(format_args!("a second run on the same image {again}"));
    }
    Ok(attempt.verdict)
}
