//! Crash testing of a recorded run, for the commands that do it.

mod conduct;
mod function_name;
mod places;
mod plan;
mod unfinished;
mod wait;

use brownout_crash::journal::{self, Entries, Head};
use brownout_crash::recovery::{KeeperCommand, Sandbox};
use brownout_crash::{
    Assignment, Bench, Campaign, CrashError, FailurePoints, Journal, Operation, Pool, Run, Scope,
    Survey, Token, Trial, Uncrashed, findings, group, narrow, try_uncrashed,
};
use brownout_report::Finding;

use crate::arguments::KEEP_RECOVERY;
use crate::commands::describe_candidates;
use crate::console::Console;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output_directory::{JOURNAL, OutputDirectory};
use crate::trace_file::TraceFile;

pub use conduct::Conduct;
pub use function_name::program_file;
pub use places::{CrashPlaces, Wanted};
pub use plan::{Plan, scope, wanted};
pub use unfinished::{is_unfinished, unfinished};

/// Findings whose causes are searched for.
const MOST_NARROWED: usize = 64;

/// What crash testing came to.
pub struct CrashTest {
    pub findings: Vec<Finding>,
    /// What was left out, in sentences.
    pub gaps: Vec<String>,
    /// What was done, in a sentence.
    pub summary: String,
}

/// Why it came to nothing, when that is no fault of brownout: nothing persistent was seen, or recovery does not pass on the
/// files that the program left.
pub struct Refused {
    pub why: String,
    pub code: ExitCode,
}

/// Tries crashes of the run in `trace`, with a journal in `directory`. Of a damaged trace it takes what comes before the
/// damage, which [`TraceFile::conclude`] then tells.
pub fn crash_test(
    trace: &mut TraceFile,
    plan: &Plan,
    directory: &OutputDirectory,
    console: &Console,
) -> Result<Result<CrashTest, Refused>, Failure> {
    let mut conduct = Conduct::new(plan.time_limit, console);
    let selection = trace.select(&plan.patterns, console)?;
    if selection.is_empty() {
        return Ok(Err(Refused {
            why: describe_candidates(&selection, trace.definitions(), &plan.patterns),
            code: ExitCode::NothingPersistent,
        }));
    }
    let identity = (trace.byte_len(), trace.events());
    let mut places = CrashPlaces::new(&trace.header().cwd, plan.wanted.clone());
    let last_event = trace.events();

    let run = Run::new(trace.path(), selection);
    conduct.begin_reading(last_event);
    let survey = run.survey(plan.scope.clone(), &mut places, &mut conduct)?;
    check_functions(&survey.points, &plan.scope)?;
    let points = survey.points(&mut places);
    let operation = plan.scope.operation.as_ref();
    let operation = operation.map(|_| survey.points.operation());

    let mut benches = open_benches(plan, &survey, console)?;
    conduct.begin_reading(last_event);
    let uncrashed = try_end(
        &run,
        &survey,
        &mut benches[0],
        (last_event, operation),
        plan,
        &mut conduct,
    )?;
    if !uncrashed.attempt.verdict.passed() {
        return Ok(Err(Refused {
            why: describe_uncrashed(&uncrashed, plan),
            code: ExitCode::TargetFailed,
        }));
    }

    let head = Head {
        assignment: plan.assignment(identity),
        shards: vec![plan.shard],
        points: points.len() as u64,
    };
    let (mut journal, earlier) = open_journal(directory, &head, plan, console)?;
    let mut campaign = Campaign::new(
        &run,
        &survey.files,
        plan.shard,
        operation.is_some(),
        uncrashed.time_limit,
    );
    let (trials, mut causes) = earlier;
    campaign.resume(trials);
    let mut pool = Pool::new(benches);
    conduct.begin_trials()?;
    let complete = campaign.try_all(&points, &mut pool, &mut journal, &mut places, &mut conduct)?;
    let progress = campaign.progress();
    let trials = campaign.into_trials();
    let groups = group(&trials);

    let asked: Vec<Trial> = groups
        .iter()
        .map(|group| group.first().clone())
        .filter(|first| !causes.iter().any(|cause| cause.cause_of == first.event))
        .take(MOST_NARROWED)
        .collect();
    if complete && plan.narrowing && !asked.is_empty() {
        conduct.begin_narrowing(asked.len());
        let mut pool = Pool::new(pool.close());
        let found = narrow(
            &run,
            &survey.files,
            (asked, &trials),
            plan.scope.operation.as_deref(),
            uncrashed.time_limit,
            &mut pool,
            &mut places,
            &mut conduct,
        )?;
        for cause in &found {
            journal.cause(cause).map_err(CrashError::from)?;
        }
        causes.extend(found);
    }
    let findings = findings(groups, &causes, |trial| token(trial, &head.assignment));
    let mut gaps: Vec<String> = places.problems().collect();
    gaps.extend(conduct.gap(complete, progress));
    Ok(Ok(CrashTest {
        findings,
        gaps,
        summary: conduct.summary(progress),
    }))
}

/// A function that was to be followed and was never called makes everything after it meaningless.
pub fn check_functions(points: &FailurePoints, scope: &Scope) -> Result<(), Failure> {
    let followed = [
        ("--op", &scope.operation, points.operations_seen()),
        ("--after", &scope.after, points.begun()),
    ];
    for (option, function, seen) in followed {
        if let Some(function) = function.clone().filter(|_| !seen) {
            return Err(Failure::NotWatched { option, function });
        }
    }
    Ok(())
}

fn open_benches(plan: &Plan, survey: &Survey, console: &Console) -> Result<Vec<Bench>, Failure> {
    let keeper = KeeperCommand::this_executable(KEEP_RECOVERY);
    let mut benches = Vec::new();
    for _ in 0..plan.jobs {
        let sandbox = Sandbox::start(&keeper, &plan.recovery, survey.files.paths())
            .map_err(CrashError::from)?;
        if benches.is_empty() {
            tell_isolation(&sandbox, console);
        }
        benches.push(Bench::new(
            sandbox,
            plan.recovery.clone(),
            plan.expected.clone(),
        ));
    }
    Ok(benches)
}

fn try_end(
    run: &Run,
    survey: &Survey,
    bench: &mut Bench,
    (events, operation): (u64, Option<Operation>),
    plan: &Plan,
    conduct: &mut Conduct,
) -> Result<Uncrashed, Failure> {
    let (image, _) = run.image_before(None, &survey.files, conduct)?;
    conduct.begin_uncrashed();
    let limit = plan.recovery_time_limit;
    Ok(try_uncrashed(bench, &image, events, operation, limit).map_err(CrashError::from)?)
}

fn describe_uncrashed(uncrashed: &Uncrashed, plan: &Plan) -> String {
    let attempt = &uncrashed.attempt;
    let mut text = format!(
        "recovery {} on the files that the program left, without any crash; \
         before crashes can tell anything it must pass there: {}",
        attempt.verdict, plan.recovery.command
    );
    for line in &attempt.output {
        text.push_str("\n  | ");
        text.push_str(line);
    }
    text
}

type Earlier = (Vec<Trial>, Vec<brownout_crash::Cause>);

/// A new journal, or the one to go on with and what it holds.
fn open_journal(
    directory: &OutputDirectory,
    head: &Head,
    plan: &Plan,
    console: &Console,
) -> Result<(Journal, Earlier), Failure> {
    let path = directory.file(JOURNAL);
    let earlier = if plan.resume {
        journal::read(&path).map_err(CrashError::from)?
    } else {
        None
    };
    match earlier {
        Some(Entries {
            head: found,
            trials,
            causes,
        }) => {
            if found != *head {
                return Err(Failure::OtherAssignment { path });
            }
            console.remark(format_args!(
                "{} failure points were tried before",
                trials.len()
            ));
            let journal = Journal::resume(&path).map_err(CrashError::from)?;
            Ok((journal, (trials, causes)))
        }
        None => {
            if plan.resume {
                console.remark("there is nothing to go on with; starting anew");
            }
            let journal = Journal::create(&path, head).map_err(CrashError::from)?;
            Ok((journal, (Vec::new(), Vec::new())))
        }
    }
}

fn token(trial: &Trial, assignment: &Assignment) -> Token {
    Token {
        event: trial.event,
        recovery: assignment.recovery.clone(),
        operation: trial.operation,
        patterns: assignment.patterns.clone(),
        time_limit: assignment.time_limit,
    }
}

fn tell_isolation(sandbox: &Sandbox, console: &Console) {
    use brownout_crash::recovery::Isolation;
    match sandbox.isolation() {
        Isolation::Layered => {}
        Isolation::ReadOnly => console.remark(
            "recovery can write to the directories of the persistent files and TMPDIR only: \
             overlay file systems are not possible here",
        ),
        Isolation::Directory => console.warn(
            "recovery runs on copies of the persistent files named by {pm}, and is kept from nothing else: \
             namespaces are not possible here",
        ),
    }
}

/// Findings made anew from what is in journals.
pub fn findings_of(entries: &Entries) -> Vec<Finding> {
    let assignment = &entries.head.assignment;
    let groups = group(&entries.trials);
    findings(groups, &entries.causes, |trial| token(trial, assignment))
}
