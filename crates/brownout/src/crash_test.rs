//! Crash testing of a recorded run, for the commands that do it.

mod calling_contexts;
mod continuation;
mod coverage_gap;
mod crash_coverage;
mod file_names;
mod flaky;
mod function_name;
mod interrupt;
mod left_out;
mod missing_function;
mod monitor;
mod plan;
mod point_filters;

use std::ops::ControlFlow;
use std::path::Path;

use brownout_crash::journal::{self, Entries, Head};
use brownout_crash::{
    Campaign, CampaignEnding, Collaborators, CrashError, FailurePoints, Journal, Operation,
    RecordedRun, Scope, StrategyInput, Survey, TestConfiguration, Token, Trial, UncrashedRecovery,
    findings, group, narrow, recover_without_crash,
};
use brownout_crash::{Suspect, SuspectImages, judge, without_suspects};
use brownout_recovery::{Isolation, RecoveryRunner, RunnerPool, Sandbox, SandboxServerCommand};
use brownout_report::{CrashCoverage, Finding, LeftOut, Sources};

use crate::arguments::SERVE_SANDBOX;
use crate::commands::describe_candidates;
use crate::console::Console;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output_directory::{JOURNAL, OutputDirectory};
use crate::suspects::{JudgedSuspect, LintSuspect};
use crate::trace_file::TraceFile;

pub use calling_contexts::CrashSymbols;
pub use continuation::{crash_command, quoted as shell_word};
pub use coverage_gap::unfinished;
use crash_coverage::{coverage_of, shortfalls};
pub use crash_coverage::{coverage_sentence, merged_coverage};
use file_names::unshown_names;
pub use flaky::undecided;
pub use function_name::program_file;
pub use left_out::{demote, left_out, withdraw_confirmations};
pub use missing_function::{RecordedBy, why_never_called};
pub use monitor::{CrashTestMonitor, counted};
pub use plan::{Plan, scope};
pub use point_filters::PointFilters;

/// The number of findings whose causes are searched for.
const MOST_NARROWED: usize = 64;

/// The results of crash testing.
pub struct CrashTest {
    pub findings: Vec<Finding>,
    /// What was left out on purpose.
    pub left_out: LeftOut,
    /// What was not tested, in sentences.
    pub gaps: Vec<String>,
    /// What was done, in a sentence.
    pub summary: String,
    pub coverage: CrashCoverage,
    /// What trying the suspects of lint has shown.
    pub judged: Vec<JudgedSuspect>,
    /// Why too little was tested, in sentences. A shard that has nothing to test is not meant: the others test.
    pub shortfalls: Vec<String>,
}

/// Why nothing was tested: nothing persistent was seen, or recovery does not pass on the files that the target left.
pub struct Refused {
    pub why: String,
    pub code: ExitCode,
}

/// Tests crashes of the run in `trace`, with a journal in `directory`. Of a damaged trace it uses the part before the damage;
/// [`TraceFile::shortfall`] then reports the damage. `begin` is called when the options are known to fit the run and the
/// test that is resumed: until then nothing of earlier results may be replaced.
pub fn crash_test(
    trace: &mut TraceFile,
    plan: &Plan,
    suspects: &[LintSuspect],
    directory: &OutputDirectory,
    begin: impl Fn() -> Result<(), Failure>,
    console: &Console,
) -> Result<Result<CrashTest, Refused>, Failure> {
    let mut monitor = CrashTestMonitor::new(plan.time_limit, console);
    let selection = trace.select(&plan.patterns, console)?;
    if selection.is_empty() {
        return Ok(Err(Refused {
            why: describe_candidates(&selection, trace.definitions(), &plan.patterns),
            code: ExitCode::NothingTested,
        }));
    }
    let identity = trace.identity();
    let mut symbols = CrashSymbols::new(&trace.header().cwd, plan.filters.clone());
    let last_event = trace.events();

    let run = RecordedRun::new(trace.path(), selection);
    monitor.begin_reading(last_event);
    let survey = run.survey(plan.scope.clone(), &mut symbols, &mut monitor)?;
    check_scope(&survey.points, &plan.scope, &run, plan.recorded_by)?;
    symbols.check_filters()?;
    if !plan.resume {
        begin()?;
    }
    let counts_operations = !plan.scope.operations.is_empty();
    let operation = counts_operations.then(|| survey.points.operation());

    let mut runners = open_runners(plan, &survey, console)?;
    monitor.begin_reading(last_event);
    let uncrashed = recover_uncrashed(
        &run,
        &survey,
        &mut runners[0],
        (last_event, operation),
        plan,
        &mut monitor,
    )?;
    if !uncrashed.attempt.verdict.passed() {
        return Ok(Err(Refused {
            why: describe_uncrashed(&uncrashed, plan),
            code: ExitCode::TargetFailed,
        }));
    }

    let suspects: Vec<Suspect> = suspects.iter().map(|known| known.suspect.clone()).collect();
    let mut strategy = (plan.strategy.start)(StrategyInput {
        run: &run,
        survey: &survey,
        symbols: &mut symbols,
        occurrences: plan.occurrences,
        suspects: &suspects,
        profile: plan.profile,
    })?;
    let head = Head {
        configuration: plan.configuration(identity),
        shards: vec![plan.shard],
        points: strategy.planned(),
    };
    let earlier = earlier_entries(directory, &head, plan)?;
    if plan.resume {
        begin()?;
    }
    let (mut journal, earlier) = open_journal(
        directory,
        &head,
        earlier,
        strategy.suspects(),
        plan,
        console,
    )?;
    let mut campaign = Campaign::new(
        &run,
        &survey.files,
        plan.shard,
        counts_operations,
        uncrashed.time_limit,
    );
    let (trials, mut causes, earlier_ending) = earlier;
    campaign.resume(trials);
    let mut pool = RunnerPool::new(runners);
    monitor.begin_trials()?;
    let ending = campaign.run(&mut Collaborators {
        strategy: &mut *strategy,
        pool: &mut pool,
        journal: &mut journal,
        symbols: &mut symbols,
        observer: &mut monitor,
    })?;
    let progress = campaign.progress();
    let trials = campaign.into_trials();
    let suspects = strategy.suspects().to_vec();
    let groups = group(&without_suspects(&suspects, &trials));

    let mut asked: Vec<Trial> = groups
        .iter()
        .map(|group| group.first().clone())
        // Searching needs a recovery that does the same each time.
        .filter(|first| !first.is_flaky())
        .filter(|first| !causes.iter().any(|cause| cause.cause_of == first.point))
        .collect();
    most_promising_first(&mut asked, &trials);
    asked.truncate(MOST_NARROWED);
    if !monitor.interrupted() && plan.narrowing && !asked.is_empty() {
        // A recovery that goes on after the time limit keeps its runner.
        let runners = match pool.is_idle() {
            true => pool.close(),
            false => open_runners(plan, &survey, console)?,
        };
        monitor.begin_narrowing(asked.len());
        let mut pool = RunnerPool::new(runners);
        let found = narrow(
            &run,
            &survey.files,
            (asked, &trials),
            &plan.scope.operations,
            uncrashed.time_limit,
            &mut pool,
            &mut symbols,
            &mut monitor,
        )?;
        for cause in &found {
            journal.cause(cause).map_err(CrashError::from)?;
        }
        causes.extend(found);
    }
    let findings = findings(groups, &causes, |trial| token(trial, &head.configuration));
    let mut findings = identified(findings);
    let left_out = left_out(survey.points.creations(), survey.files.paths(), trace);
    let mut judged = judged(&suspects, &trials, &head.configuration);
    let incomplete_images = [
        demote(&mut findings, &left_out),
        withdraw_confirmations(&mut judged, &left_out),
    ];
    let mut gaps: Vec<String> = symbols.problems().collect();
    gaps.extend(monitor.gap());
    let ending = earlier_ending.map_or(ending, |earlier| earlier.continued(ending));
    let coverage = coverage_of(plan, (&trials, &suspects), &ending, &monitor);
    Ok(Ok(CrashTest {
        findings,
        gaps,
        summary: coverage_sentence(&coverage, progress.failed),
        shortfalls: shortfalls(&coverage, &ending, progress, &monitor, &left_out)
            .into_iter()
            .chain(incomplete_images.into_iter().flatten())
            .chain(unshown_names(trace, &survey.files, &plan.recovery.command))
            .chain(undecided(&trials))
            .collect(),
        left_out,
        judged,
        coverage,
    }))
}

/// Functions that options name must have been called in the run, and failure points must follow.
pub fn check_scope(
    points: &FailurePoints,
    scope: &Scope,
    run: &RecordedRun,
    recorded_by: RecordedBy,
) -> Result<(), Failure> {
    let missing = points.missing_operations().next();
    let missing = missing.map(|operation| ("--op", operation));
    let after = scope.after.as_ref();
    let not_begun = after.filter(|_| !points.begun());
    let not_begun = not_begun.map(|after| ("--after", after));
    if let Some((option, function)) = missing.or(not_begun) {
        let name = function.text().to_owned();
        if missing.is_none() && points.waits_for_return() {
            return Err(Failure::NeverReturned { function: name });
        }
        let read = run.walk(|_, _| ControlFlow::Continue(()))?;
        return Err(Failure::NeverCalled {
            option,
            function: name,
            why: why_never_called(
                function,
                read.definitions(),
                &read.header().cwd,
                recorded_by,
            ),
        });
    }
    match after {
        Some(after) if points.is_empty_from_there() => Err(Failure::NoPointAfter {
            function: after.text().to_owned(),
            before: counted(points.too_early(), "failure point"),
        }),
        _ => Ok(()),
    }
}

fn open_runners(
    plan: &Plan,
    survey: &Survey,
    console: &Console,
) -> Result<Vec<RecoveryRunner>, Failure> {
    let server = SandboxServerCommand::this_executable(SERVE_SANDBOX);
    let mut runners = Vec::new();
    for _ in 0..plan.jobs {
        let sandbox = Sandbox::start(&server, &plan.recovery, survey.files.paths())
            .map_err(CrashError::from)?;
        if runners.is_empty() {
            report_isolation(&sandbox, console);
        }
        runners.push(RecoveryRunner::new(
            sandbox,
            plan.recovery.clone(),
            plan.expected.clone(),
        ));
    }
    Ok(runners)
}

fn recover_uncrashed(
    run: &RecordedRun,
    survey: &Survey,
    runner: &mut RecoveryRunner,
    (events, operation): (u64, Option<Operation>),
    plan: &Plan,
    monitor: &mut CrashTestMonitor,
) -> Result<UncrashedRecovery, Failure> {
    let (image, _) = run.image_before(None, &survey.files, monitor)?;
    monitor.begin_uncrashed();
    let limit = plan.recovery_time_limit;
    Ok(
        recover_without_crash(runner, &image, events, operation, limit)
            .map_err(CrashError::from)?,
    )
}

fn describe_uncrashed(uncrashed: &UncrashedRecovery, plan: &Plan) -> String {
    let attempt = &uncrashed.attempt;
    let mut text = format!(
        "recovery {} on the files that the program left, without any crash; \
         it must pass there before crashes can be tested: {}",
        attempt.verdict, plan.recovery.command
    );
    for line in &attempt.output {
        text.push_str("\n  | ");
        text.push_str(line);
    }
    text
}

type Earlier = (
    Vec<Trial>,
    Vec<brownout_crash::Cause>,
    Option<CampaignEnding>,
);

/// The journal of the test that is resumed, which must be the same test.
fn earlier_entries(
    directory: &OutputDirectory,
    head: &Head,
    plan: &Plan,
) -> Result<Option<Entries>, Failure> {
    if !plan.resume {
        return Ok(None);
    }
    let path = directory.file(JOURNAL);
    let earlier = journal::read(&path).map_err(CrashError::from)?;
    if let Some(Entries { head: found, .. }) = &earlier {
        check_same_test(&path, &found.configuration, &head.configuration)?;
        if found != head {
            return Err(Failure::OtherOptions { path });
        }
    }
    Ok(earlier)
}

/// A new journal, or an existing one to continue with its content.
fn open_journal(
    directory: &OutputDirectory,
    head: &Head,
    earlier: Option<Entries>,
    suspects: &[SuspectImages],
    plan: &Plan,
    console: &Console,
) -> Result<(Journal, Earlier), Failure> {
    let path = directory.file(JOURNAL);
    match earlier {
        Some(Entries {
            trials,
            causes,
            ending,
            ..
        }) => {
            console.remark(format_args!(
                "{} tried before",
                counted(trials.len() as u64, "crash point")
            ));
            let journal = Journal::resume(&path).map_err(CrashError::from)?;
            Ok((journal, (trials, causes, ending)))
        }
        None => {
            if plan.resume {
                console.remark("there is nothing to resume; starting from the beginning");
            }
            let mut journal = Journal::create(&path, head).map_err(CrashError::from)?;
            for suspect in suspects {
                journal.suspect(suspect).map_err(CrashError::from)?;
            }
            Ok((journal, (Vec::new(), Vec::new(), None)))
        }
    }
}

/// Fails if the directory holds a test of another trace or with other options, which must not be continued.
pub fn check_resumable(
    directory: &OutputDirectory,
    trace: &TraceFile,
    plan: &Plan,
) -> Result<(), Failure> {
    let path = directory.file(JOURNAL);
    match journal::read(&path).map_err(CrashError::from)? {
        Some(earlier) => {
            let wanted = plan.configuration(trace.identity());
            check_same_test(&path, &earlier.head.configuration, &wanted)
        }
        None => Ok(()),
    }
}

/// Results of different strategies or options are not mixed.
pub fn check_same_test(
    journal: &Path,
    found: &TestConfiguration,
    wanted: &TestConfiguration,
) -> Result<(), Failure> {
    if found.strategy != wanted.strategy {
        return Err(Failure::OtherStrategy {
            path: journal.to_owned(),
            found: found.strategy.clone(),
            wanted: wanted.strategy.clone(),
        });
    }
    let path = journal.to_owned();
    if found.trace != wanted.trace {
        return Err(Failure::OtherConfiguration { path });
    }
    let with_other_programs = TestConfiguration {
        programs: wanted.programs.clone(),
        ..found.clone()
    };
    if found.programs != wanted.programs && with_other_programs == *wanted {
        return Err(Failure::RecoveryChanged { path });
    }
    if found != wanted {
        return Err(Failure::OtherOptions { path });
    }
    Ok(())
}

fn token(trial: &Trial, configuration: &TestConfiguration) -> Token {
    Token {
        point: trial.point.clone(),
        recovery: configuration.recovery.clone(),
        operation: trial.operation,
        patterns: configuration.patterns.clone(),
        time_limit: configuration.time_limit,
        trace: configuration.trace,
    }
}

fn report_isolation(sandbox: &Sandbox, console: &Console) {
    match sandbox.isolation() {
        Isolation::Layered => {}
        Isolation::ReadOnly => console.remark(
            "recovery can only write to the directories of the persistent files and to TMPDIR: \
             this machine does not allow overlay file systems in namespaces",
        ),
        Isolation::Directory => console.warn(
            "recovery runs on copies of the persistent files at the paths that {pm} stands for, and is not isolated otherwise: \
             this machine does not allow namespaces",
        ),
    }
}

/// Sorts failures by how much the search for their causes promises: those in operations first, whose code the user asks
/// about, then those between and before operations; and those first that are near an image that passed.
fn most_promising_first(failures: &mut [Trial], trials: &[Trial]) {
    let mut passed: Vec<u64> = trials
        .iter()
        .filter(|trial| trial.verdict.passed() && trial.point.choice.is_none())
        .map(|trial| trial.point.event)
        .collect();
    passed.sort_unstable();
    failures.sort_by_key(|failure| {
        let operation = failure.operation.unwrap_or_default();
        let before = passed.partition_point(|&event| event < failure.point.event);
        let nearest = before.checked_sub(1).map_or(0, |at| passed[at]);
        let distance = failure.point.event - nearest;
        (!operation.active, operation.completed == 0, distance)
    });
}

/// What the trials say about suspects.
pub fn judged(
    suspects: &[SuspectImages],
    trials: &[Trial],
    configuration: &TestConfiguration,
) -> Vec<JudgedSuspect> {
    let verdicts = judge(suspects, trials).into_iter();
    let judged = verdicts.map(|verdict| JudgedSuspect {
        token: (verdict.proof.as_ref()).map(|proof| token(proof, configuration).to_string()),
        verdict,
    });
    judged.collect()
}

/// The findings of the trials and causes in journals, but for trials of suspects whose findings are `reported`.
pub fn findings_of(entries: &Entries, reported: &[Finding]) -> Vec<Finding> {
    let configuration = &entries.head.configuration;
    let is_reported = |suspect: &&SuspectImages| {
        let mut reported = reported.iter();
        reported.any(|finding| finding.represents(&suspect.suspect))
    };
    let suspects: Vec<SuspectImages> = entries
        .suspects
        .iter()
        .filter(is_reported)
        .cloned()
        .collect();
    let groups = group(&without_suspects(&suspects, &entries.trials));
    identified(findings(groups, &entries.causes, |trial| {
        token(trial, configuration)
    }))
}

fn identified(mut findings: Vec<Finding>) -> Vec<Finding> {
    let sources = Sources::on_disk();
    for finding in &mut findings {
        finding.identify(&sources);
    }
    findings
}
