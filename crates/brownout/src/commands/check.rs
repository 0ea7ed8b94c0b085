//! `brownout check`: records a program, lints the trace, looks for races, and tests crashes if there is a recovery.

mod sweep;

use std::path::Path;

use brownout_crash::SuspectedStores;
use brownout_engine::{
    Recording, ScheduleDeadlock, StopReason, is_lost_record, is_unrecorded_program,
};
use brownout_race::PERSISTENCY_RACE;
use brownout_report::{Reason, ReasonKind, Subject};
use brownout_symbols::BuildId;
use brownout_trace::{EarlyStop, EventClass, ProcessEnd};

use super::record;
use crate::arguments::target_end;
use crate::arguments::{CheckArgs, CrashTestArgs, RecordArgs, RecordingArgs, crash_options};
use crate::console::Console;
use crate::crash_test::{Plan, check_resumable, crash_command, crash_test, program_file};
use crate::decisions::Decisions;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, sentence};
use crate::finding_output::Stream;
use crate::lint_run::{LintRun, lint};
use crate::output_directory::{self, JOURNAL, OutputDirectory, Stay, TRACE};
use crate::race_confirmation::{self, Confirmation, confirm};
use crate::race_run::race;
use crate::recovery_context::RecoveryContext;
use crate::results::Results;
use crate::settings::Settings;
use crate::shortfall::Shortfall;
use crate::suspects::LintSuspect;
use crate::target_outcome;
use crate::trace_file::TraceFile;
use crate::unrecorded_changes::unrecorded_changes;

pub fn run(arguments: &CheckArgs, console: &Console) -> Result<ExitCode, Failure> {
    let out = arguments.out.as_deref();
    let (mut settings, out) =
        Settings::with_out(out, &arguments.findings, &arguments.patterns, console)?;
    settings.target_success = arguments.target_success.clone();
    let results = (out.as_path(), Stay::Kept);
    match arguments.schedules {
        Some(count) => sweep::check_schedules(arguments, &settings, &out, count.get(), console),
        None => check(arguments, &settings, results, Stream::Error, console),
    }
}

/// Records, lints, tests crashes if there is a recovery, then writes and prints the results. `stream` is where a person
/// reads them.
pub fn check(
    arguments: &CheckArgs,
    settings: &Settings,
    (out, stay): (&Path, Stay),
    stream: Stream,
    console: &Console,
) -> Result<ExitCode, Failure> {
    let plan = crash_plan(arguments, settings)?;
    let decisions = Decisions::read(settings)?;
    let mut directory = OutputDirectory::claim(out)?;
    directory.set_stay(stay);
    let (results, directory) = examine(
        (arguments, plan.as_ref()),
        settings,
        &decisions,
        directory,
        console,
    )?;
    results.conclude(decisions, settings, Some(&directory), stream, console)
}

/// Records, lints, looks for races, and tests crashes if there is a plan for that.
fn examine(
    (arguments, plan): (&CheckArgs, Option<&Plan>),
    settings: &Settings,
    decisions: &Decisions,
    directory: OutputDirectory,
    console: &Console,
) -> Result<(Results, OutputDirectory), Failure> {
    let earlier = match arguments.resume {
        true => RecordedEnd::of_earlier_run(arguments, plan, &directory, console)?,
        false => None,
    };
    let is_resumed = earlier.is_some();
    let (end, directory) = match earlier {
        Some(end) => (end, directory),
        None => record_target((arguments, plan), settings, decisions, directory, console)?,
    };
    let lint_run = lint(&directory.file(TRACE), settings, console)?;
    if is_resumed {
        refuse_changed_program(&lint_run.trace)?;
    }
    let LintRun {
        subject,
        findings,
        wrappers,
        tested,
        ..
    } = lint_run;
    let mut results = Results::of_lint(subject, findings, wrappers, tested);
    results.better_profile = lint_run.better_profile;
    results.subject.crash_options = crash_options(&arguments.crash, &arguments.findings.config);
    if lint_run.nothing_persistent.is_none() {
        let how = arguments.confirm.then_some(Confirmation {
            plan,
            time_limit: race_confirmation::TIME_LIMIT,
            directory: Some(&directory),
            environment: None,
        });
        look_for_races(&directory, how, settings, &mut results, console)?;
    }
    results.recovery = plan.map(|plan| plan.recovery.command.clone());
    // Damage first: it may be the reason of everything else.
    if let Some(damage) = lint_run.trace.damage() {
        let reason = Reason::other(damage.sentence());
        results.fall_short(damage.exit_code(), reason);
    }
    let failed = end.failed(plan, &settings.target_success, &directory);
    let can_crash = failed.is_none() && lint_run.nothing_persistent.is_none();
    results.shortfalls.extend(failed);
    let mut notes = lint_run.trace.notes().clone();
    end.notes.iter().for_each(|note| notes.add(note));
    results.note_unmatched(lint_run.unmatched_patterns, settings);
    results.note(&notes);
    let compared = unrecorded_changes(&lint_run.trace, &settings.patterns, console)?;
    results.compared(compared, console);
    if let Some(why) = lint_run.nothing_persistent.or(lint_run.nothing_stored) {
        let reason = Reason::new(ReasonKind::NothingPersistent, why);
        results.fall_short(ExitCode::NothingTested, reason);
    }
    match plan {
        Some(plan) if can_crash => {
            let suspected = (&lint_run.suspects[..], &lint_run.suspected_stores);
            let test = (plan, suspected);
            test_crashes(test, settings, decisions, &directory, &mut results, console)?;
        }
        Some(_) => console.remark("crashes are not tested"),
        None => {}
    }
    results.steps = end.steps;
    Ok((results, directory))
}

/// Looks for races, if the trace can show any: it needs loads, and two threads that access persistent memory. Forces them if it is
/// said how.
pub(super) fn look_for_races(
    directory: &OutputDirectory,
    how: Option<Confirmation<'_>>,
    settings: &Settings,
    results: &mut Results,
    console: &Console,
) -> Result<(), Failure> {
    let mut trace = TraceFile::open(&directory.file(TRACE))?;
    let counts = trace.summary().map(|summary| &summary.counts);
    let has_loads = counts.is_none_or(|counts| counts.of(EventClass::Load) > 0);
    let is_off = settings.levels.is_off(PERSISTENCY_RACE.id);
    if is_off || !has_loads {
        let why = match is_off {
            true => "the rule `persistency-race` is off",
            false => "no load was recorded that threads share",
        };
        not_forced(how.map(|_| why.to_owned()), results);
        return Ok(());
    }
    let mut run = race(&mut trace, settings, true, console)?;
    match run.untested.take() {
        None => {
            if let Some(how) = how {
                confirm(&mut trace, &mut run, settings, &how, console)?;
            }
            results.add_races(run, console);
        }
        Some(why) => not_forced(how.map(|_| why), results),
    }
    Ok(())
}

/// Says why races that were to be forced were not looked for, if there is a reason.
fn not_forced(why: Option<String>, results: &mut Results) {
    if let Some(why) = why {
        let why = format!("no race was forced, as --confirm asks for: {why}");
        // A later command does not force races.
        results.fall_short(ExitCode::NothingTested, Reason::other(why));
    }
}

/// How crashes are tested; `None` if there is no recovery.
fn crash_plan(arguments: &CheckArgs, settings: &Settings) -> Result<Option<Plan>, Failure> {
    let options = settings.crash.complete(&arguments.crash);
    let Some(mut plan) = Plan::new(&options, settings)? else {
        refuse_without_recovery(&arguments.crash)?;
        return Ok(None);
    };
    plan.set_resume(arguments.resume)?;
    plan.target_arguments = arguments.recording.command.len();
    if let Some(program) = arguments.recording.command.first() {
        plan.resolve_functions(&program_file(Path::new(program)))?;
    }
    Ok(Some(plan))
}

/// Runs the target and writes its trace to the directory, in place of earlier results.
fn record_target(
    (arguments, plan): (&CheckArgs, Option<&Plan>),
    settings: &Settings,
    decisions: &Decisions,
    mut directory: OutputDirectory,
    console: &Console,
) -> Result<(RecordedEnd, OutputDirectory), Failure> {
    let results = Results::new(planned(arguments, settings), Vec::new());
    let doing = "recording the program";
    results.replace_earlier(decisions, settings, &mut directory, doing)?;
    let arguments = RecordArgs {
        patterns: settings.patterns.clone(),
        output: directory.unfinished_trace(),
        shared_loads: true,
        same_as: None,
        recording: recording(arguments, settings),
    };
    match record::record(&arguments, plan.map(|plan| &plan.scope), console) {
        Ok(recording) => {
            // Programs that were not recorded are a reason why the run does not pass, which is printed with the others.
            let notes = recording.notes.iter();
            notes
                .filter(|note| !is_unrecorded_program(note) && !is_lost_record(note))
                .for_each(|note| console.warn(note));
            directory.keep_trace()?;
            Ok((RecordedEnd::of(recording), directory))
        }
        Err(failure) => {
            directory.abandon();
            Err(failure)
        }
    }
}

/// Tests crashes of the recorded run and adds what that shows to the results.
pub(super) fn test_crashes(
    (plan, suspected): (&Plan, (&[LintSuspect], &SuspectedStores)),
    settings: &Settings,
    decisions: &Decisions,
    directory: &OutputDirectory,
    results: &mut Results,
    console: &Console,
) -> Result<(), Failure> {
    let begin = || {
        results.write_unfinished(decisions, settings, directory, "testing crashes")?;
        directory.write_recovery_context(&RecoveryContext::here(&plan.expected))
    };
    if output_directory::is_in_use() {
        // Whatever ends crash testing, the findings of lint remain.
        begin()?;
    }
    let mut trace = TraceFile::open(&directory.file(TRACE))?;
    match crash_test(&mut trace, plan, suspected, directory, &begin, console) {
        Ok(tested) => results.add_crash_test(tested, suspected.0, settings, console),
        // The results that were to be resumed stay as they are.
        Err(failure) if !output_directory::is_in_use() => return Err(failure),
        Err(failure) => {
            let left = match directory.file(JOURNAL).exists() {
                true => "the crash test did not finish",
                false => "no crash was tested",
            };
            let why = format!("{}; {left}", failure.sentence());
            results.fall_short(failure.exit_code(), Reason::other(why));
        }
    }
    Ok(())
}

/// Options of crash testing must not be ignored.
fn refuse_without_recovery(arguments: &CrashTestArgs) -> Result<(), Failure> {
    let given = arguments.given();
    if given.is_empty() {
        return Ok(());
    }
    Err(Failure::NoEffect {
        options: given.join(", "),
        several: given.len() > 1,
    })
}

/// Results of an old build must not pass for those of the new one. A program or library without a build-id cannot be compared,
/// and one that is gone has no new build.
fn refuse_changed_program(trace: &TraceFile) -> Result<(), Failure> {
    let processes = trace.definitions().processes();
    for module in processes.flat_map(|process| process.modules()) {
        let path = trace.header().cwd.join(&module.path);
        let recorded = BuildId::new(&module.build_id);
        let changed =
            recorded.is_some() && BuildId::of_file(&path).is_ok_and(|found| found != recorded);
        if changed {
            return Err(Failure::ProgramChanged {
                path: module.path.clone(),
            });
        }
    }
    Ok(())
}

/// What is about to be recorded.
fn planned(arguments: &CheckArgs, settings: &Settings) -> Subject {
    let command = arguments.recording.command.iter();
    Subject {
        command: command
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect(),
        directory: Some(settings.directory.to_string_lossy().into_owned()),
        accepted_ends: settings.accepted_ends(),
        model: Some(settings.model.name.to_owned()),
        patterns: settings.pattern_texts(),
        ..Subject::default()
    }
}

/// Recording options, including those of the configuration file.
fn recording(arguments: &CheckArgs, settings: &Settings) -> RecordingArgs {
    let mut recording = arguments.recording.clone();
    recording.loads |= settings.loads;
    recording.watched.extend(settings.own_functions());
    recording
}

/// How the recorded run ended.
struct RecordedEnd {
    /// Why the trace does not contain the whole run.
    incomplete: Option<String>,
    target: Option<ProcessEnd>,
    /// What could not be recorded, one sentence each. Most of it is in the trace, too.
    notes: Vec<String>,
    /// Steps that threads have made under a schedule.
    steps: u64,
    /// Why the target was ended, if its threads waited for each other under a schedule.
    deadlock: Option<ScheduleDeadlock>,
}

impl RecordedEnd {
    fn of(recording: Recording) -> Self {
        let incomplete = match &recording.stopped {
            None | Some(StopReason::Interrupted) => None,
            Some(reason) => Some(format!("the recording is incomplete: {}", sentence(reason))),
        };
        Self {
            incomplete,
            target: Some(recording.end),
            notes: recording.notes,
            steps: recording.scheduled.as_ref().map_or(0, |run| run.steps),
            deadlock: recording.scheduled.and_then(|run| run.deadlock),
        }
    }

    /// The run whose trace is in the directory, if there is one. It must be of the same command, and crashes must have been
    /// tested with the same options.
    fn of_earlier_run(
        arguments: &CheckArgs,
        plan: Option<&Plan>,
        directory: &OutputDirectory,
        console: &Console,
    ) -> Result<Option<Self>, Failure> {
        let path = directory.file(TRACE);
        if !path.is_file() {
            console.remark("there is no recording to resume; the program is recorded again");
            return Ok(None);
        }
        let trace = TraceFile::open(&path)?;
        if trace.header().command != arguments.recording.command {
            return Err(Failure::OtherConfiguration { path });
        }
        if let Some(plan) = plan {
            match check_resumable(directory, &trace, plan) {
                // The target is often its own recovery. That it has changed is said first, when the trace is read.
                Err(Failure::RecoveryChanged { .. }) => {}
                other => other?,
            }
        }
        let ending = trace.summary().map(|summary| &summary.ending);
        let interrupted =
            ending.is_some_and(|ending| matches!(ending.stopped, Some(EarlyStop::Interrupted)));
        Ok(Some(Self {
            incomplete: trace.incomplete_reason().filter(|_| !interrupted),
            target: ending.and_then(|ending| ending.target),
            notes: Vec::new(),
            steps: 0,
            deadlock: None,
        }))
    }

    /// Why the run is not complete and successful, if it is not. `accepted` are ends that count as success. With a plan of crash
    /// testing, the command is named that tests crashes nevertheless.
    fn failed(
        &self,
        plan: Option<&Plan>,
        accepted: &[ProcessEnd],
        directory: &OutputDirectory,
    ) -> Option<Shortfall> {
        if let Some(why) = &self.incomplete {
            return Some(Shortfall {
                code: ExitCode::Usage,
                reason: Reason::other(why),
            });
        }
        if let Some(deadlock) = self.deadlock {
            let why = format!("{deadlock}; the findings are those of a failed run");
            return Some(Shortfall {
                code: ExitCode::TargetFailed,
                reason: Reason::new(ReasonKind::TargetFailed, why),
            });
        }
        let target = self.target?;
        let continuation = plan.and_then(|plan| {
            let end = target_end::argument(target);
            crash_command(
                plan.target_arguments,
                &directory.file(TRACE),
                end.as_deref(),
            )
        });
        target_outcome::failure(target, accepted, continuation)
    }
}
