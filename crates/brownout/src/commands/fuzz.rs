//! `brownout fuzz` and `brownout symex`: generate inputs and images, and examine those that take the program along a new path through
//! persistent memory.
//!
//! Workers of the campaign run the program. This thread receives what they find, examines it with the machinery of `check`, and says how
//! far it is. Each input that shows a finding has results of its own in a directory inside of the results directory.

mod approach;
mod conclusion;
mod discovery_check;
mod ends;
mod examinations;
mod status_line;
mod symbolic_report;
mod target;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use brownout_fuzz::executor::Executor;
use brownout_fuzz::{
    CampaignFile, CampaignOptions, Discovery, Figures, ForkServer, FuzzCampaign, FuzzError,
    RunOptions, SymbolicKind, TargetDescription, is_full_disk,
};
use brownout_report::Subject;
use brownout_trace::selection::Patterns;

use crate::arguments::{CampaignArgs, CrashTestArgs, FuzzArgs, SymexArgs};
use crate::console::Console;
use crate::crash_test::{Interrupt, Plan, program_file};
use crate::decisions::Decisions;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::Stream;
use crate::output_directory::OutputDirectory;
use crate::quantity::number_of;
use crate::results::Results;
use crate::settings::Settings;
use approach::Approach;
use conclusion::{conclude, write_minimal_corpus, write_operations};
use discovery_check::DiscoveryChecker;
use status_line::StatusLine;

use target::PLACE;
pub use target::{describe_target, with_client};

/// How long crashes of one input are tested, unless the user says otherwise.
const CRASH_BUDGET: Duration = Duration::from_secs(2);
/// How long this thread waits for discoveries at a time.
const TICK: Duration = Duration::from_millis(100);
/// How often the state of the campaign is written.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);

/// Runs `brownout fuzz`.
pub fn run(arguments: &FuzzArgs, console: &Console) -> Result<ExitCode, Failure> {
    run_campaign(&arguments.campaign, Approach::of_fuzz(arguments)?, console)
}

/// Runs `brownout symex`.
pub fn run_symbolic(arguments: &SymexArgs, console: &Console) -> Result<ExitCode, Failure> {
    run_campaign(&arguments.campaign, Approach::of_symex(arguments)?, console)
}

fn run_campaign(
    arguments: &CampaignArgs,
    approach: Approach,
    console: &Console,
) -> Result<ExitCode, Failure> {
    let doing = approach.doing;
    let out = arguments.out.as_deref();
    let (settings, out) =
        Settings::with_out(out, &arguments.findings, &arguments.patterns, console)?;
    let plan = crash_plan(arguments, &settings)?;
    let decisions = Decisions::read(&settings)?;
    let mut directory = OutputDirectory::claim_for_campaign(&out)?;
    let root = root_of(&directory)?;
    let target = describe_target(arguments, &approach, &settings, &root)?;
    let file = campaign_file(arguments, &approach, &settings)?;
    let options = campaign_options(arguments, approach, &settings, &root, plan.is_some())?;
    let earlier = CampaignFile::read(&root)?;
    let mut results = Results::new(planned(arguments, &settings), Vec::new());
    results.fuzzed = true;
    let file = match earlier {
        Some(earlier) if !earlier.is_of(&file) => {
            return Err(Failure::OtherCampaign { path: root });
        }
        Some(mut earlier) => {
            results.continue_campaign(&directory)?;
            earlier.options = file.options;
            console.remark(format_args!(
                "continuing the campaign in {} after {}",
                root.display(),
                number_of(earlier.executions, "execution")
            ));
            earlier
        }
        None => {
            results.replace_earlier(&decisions, &settings, &mut directory, doing)?;
            file
        }
    };
    results.write_unfinished(&decisions, &settings, &directory, doing)?;
    results.recovery = plan.as_ref().map(|plan| plan.recovery.command.clone());
    let interrupt = Interrupt::catch().map_err(Failure::Signals)?;
    let (campaign, discoveries) = FuzzCampaign::new(options, file)?;
    results.linted = !campaign.examinations().is_empty();
    let mut checker = DiscoveryChecker::new(
        &campaign,
        &target,
        &settings,
        plan.as_ref(),
        &directory,
        results,
        doing,
        console,
    );
    let limits = Limits {
        time: arguments.time_limit,
        interrupt: &interrupt,
    };
    let start = |files: &[PathBuf]| -> Result<Box<dyn Executor>, FuzzError> {
        Ok(Box::new(ForkServer::new(target.clone(), files)?))
    };
    let mut ended = campaign.run(&start, || {
        supervise(&campaign, &discoveries, &mut checker, &limits, console)
    });
    // What workers have found while they were ending.
    while let Ok(discovery) = discoveries.try_recv() {
        match discovery {
            Discovery::Failed(error) => ended = ended.and(Err(error.into())),
            discovery => ended = ended.and(checked(discovery, &mut checker, true)),
        }
    }
    let saved = campaign.save().map_err(Failure::from);
    let mut results = checker.finish();
    conclude(&campaign, &mut results, ended.and(saved));
    write_minimal_corpus(&campaign, &root, &mut results);
    write_operations(&campaign, &root, &mut results);
    results
        .subject
        .gaps
        .iter()
        .for_each(|gap| console.warn(gap));
    // Whatever could not be written: what was found is printed, and why it ended.
    results.conclude(
        decisions,
        &settings,
        Some(&directory),
        Stream::Error,
        console,
    )
}

/// When a campaign ends.
struct Limits<'a> {
    time: Option<Duration>,
    interrupt: &'a Interrupt,
}

impl Limits<'_> {
    fn are_reached(&self, campaign: &FuzzCampaign) -> bool {
        self.interrupt.asked()
            || self
                .time
                .is_some_and(|time| campaign.elapsed_here() >= time)
    }
}

/// Examines what the workers find, and says how far the campaign is, until it is over.
fn supervise(
    campaign: &FuzzCampaign,
    discoveries: &Receiver<Discovery>,
    checker: &mut DiscoveryChecker<'_>,
    limits: &Limits<'_>,
    console: &Console,
) -> Result<(), Failure> {
    let mut figures = Figures::open(checker.root())?;
    let mut line = StatusLine::new(console);
    let mut saved = Duration::ZERO;
    let mut mode = None;
    while !limits.are_reached(campaign) {
        // Symbolic workers may have nothing left to try. What they have found is examined all the same.
        let was_over = campaign.is_over();
        match discoveries.recv_timeout(TICK) {
            Ok(Discovery::Failed(error)) => return Err(error.into()),
            Ok(discovery) => {
                line.clear();
                // Findings can be repeated only if the persistent files are known, even if the campaign is killed now.
                campaign.save()?;
                checked(discovery, checker, false)?;
            }
            Err(RecvTimeoutError::Timeout) if was_over => break,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if let Some(now) = campaign.mode().filter(|now| Some(now) != mode.as_ref()) {
            line.clear();
            console.remark(format_args!("the program is {now}"));
            mode = Some(now);
        }
        if line.is_due() {
            line.show(&campaign.status(), checker.findings());
        }
        let elapsed = campaign.elapsed_here();
        if elapsed.saturating_sub(saved) >= SAVE_INTERVAL {
            saved = elapsed;
            campaign.save()?;
            figures.add(&campaign.status(), checker.findings())?;
        }
    }
    line.clear();
    figures.add(&campaign.status(), checker.findings())?;
    Ok(())
}

/// Examines a discovery. Fails only if the campaign cannot continue: of one input that cannot be examined, the results say so.
fn checked(
    discovery: Discovery,
    checker: &mut DiscoveryChecker<'_>,
    is_brief: bool,
) -> Result<(), Failure> {
    let checked = match is_brief {
        true => checker.check_briefly(discovery),
        false => checker.check(discovery),
    };
    match checked {
        Err(failure) if is_full_disk(&failure) => Err(failure),
        Err(failure) => {
            checker.note_failure(&failure);
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// How crashes of one input are tested; `None` if there is no recovery.
fn crash_plan(arguments: &CampaignArgs, settings: &Settings) -> Result<Option<Plan>, Failure> {
    let given = CrashTestArgs {
        recover: arguments.recover.clone(),
        recover_success: arguments.recover_success.clone(),
        recover_time_limit: arguments.recover_time_limit,
        time_limit: Some(arguments.crash_budget.unwrap_or(CRASH_BUDGET)),
        jobs: Some(1),
        ..CrashTestArgs::default()
    };
    let options = settings.crash.complete(&given);
    let Some(mut plan) = Plan::new(&options, settings)? else {
        return Ok(None);
    };
    plan.target_arguments = arguments.command.len();
    if let Some(program) = arguments.command.first() {
        plan.resolve_functions(&program_file(Path::new(program)))?;
    }
    Ok(Some(plan))
}

fn campaign_options(
    arguments: &CampaignArgs,
    approach: Approach,
    settings: &Settings,
    root: &Path,
    tests_crashes: bool,
) -> Result<CampaignOptions, Failure> {
    let here = std::env::current_dir().map_err(Failure::CurrentDirectory)?;
    Ok(CampaignOptions {
        out: root.to_owned(),
        seeds: match &arguments.seeds {
            Some(folder) => seeds(folder)?,
            None => approach.first_input(arguments).into_iter().collect(),
        },
        tokens: approach.tokens,
        grammar: approach.grammar,
        longest_input: approach.longest_input,
        crash_rate: arguments.crash_rate,
        disk_limit: arguments.disk_limit,
        random_seed: arguments.random_seed,
        patterns: Patterns::new(&settings.patterns, &here)?,
        tests_crashes,
        jobs: approach.jobs,
        symbolic: approach.symbolic,
    })
}

/// The files in a directory, in the order of their names. Directories in it are left out, as AFL does.
fn seeds(path: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let failed = |source| Failure::Seeds {
        path: path.to_owned(),
        source,
    };
    let entries = std::fs::read_dir(path).map_err(failed)?;
    let paths: std::io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.map_err(failed)?;
    paths.retain(|path| path.is_file());
    paths.sort();
    if paths.is_empty() {
        return Err(Failure::NoSeeds {
            path: path.to_owned(),
        });
    }
    let read = paths.iter().map(std::fs::read);
    read.collect::<std::io::Result<_>>().map_err(failed)
}

fn campaign_file(
    arguments: &CampaignArgs,
    approach: &Approach,
    settings: &Settings,
) -> Result<CampaignFile, Failure> {
    let here = std::env::current_dir().map_err(Failure::CurrentDirectory)?;
    let command = arguments.command.iter();
    let command = command.map(|argument| argument.to_string_lossy().into_owned());
    let mut file = CampaignFile::new(command.collect(), &here, settings.pattern_texts())
        .with_clients(approach.is_server);
    // Other sources do not change what an input is.
    let shaping = approach
        .sources()
        .iter()
        .filter(|source| match &source.kind {
            SymbolicKind::Start(_) => true,
            SymbolicKind::File(path) => path != Path::new(PLACE),
            SymbolicKind::Stdin | SymbolicKind::Image(_) => false,
        });
    file.symbolic = shaping.map(|source| source.text()).collect();
    file.options = RunOptions {
        timeout: Some(arguments.timeout.as_secs_f64()),
        fork_at: arguments.fork_at.clone(),
        config: arguments.findings.config.config.as_ref().map(|config| {
            let config = here.join(config);
            config.to_string_lossy().into_owned()
        }),
        preset: arguments.findings.config.preset.clone(),
    };
    Ok(file)
}

fn root_of(directory: &OutputDirectory) -> Result<PathBuf, Failure> {
    let path = directory.file("");
    std::fs::canonicalize(&path).map_err(|source| Failure::OutputDirectory { path, source })
}

/// What is about to be fuzzed.
fn planned(arguments: &CampaignArgs, settings: &Settings) -> Subject {
    let command = arguments.command.iter();
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

/// The target of a campaign as its results describe it.
pub fn target_description(
    file: &CampaignFile,
    root: &Path,
    timeout: Duration,
    settings: &Settings,
) -> Result<TargetDescription, Failure> {
    target::from_file(file, root, timeout, settings)
}
