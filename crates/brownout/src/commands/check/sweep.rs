//! `brownout check --schedules N`: records a program under several schedules of its threads, and examines each recording.
//!
//! The results of the first schedule and the findings of all are in the results directory; those of each other schedule, with its
//! trace, are in a directory inside of it. The first run shows how many steps the threads make, over which the others
//! distribute their preemptions.
//!
//! What it can miss: interleavings that no seed shows, and those that [`brownout_engine::ThreadSchedule`] never tries.

use std::io::{Seek as _, SeekFrom, Stdin};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brownout_engine::ThreadSchedule;
use brownout_report::{Reason, ReasonKind};

use super::{crash_plan, examine};
use crate::arguments::CheckArgs;
use crate::console::Console;
use crate::crash_test::Plan;
use crate::decisions::Decisions;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::Stream;
use crate::mapped_file_state::{Beginning, Restoration};
use crate::output_directory::{OutputDirectory, TRACE};
use crate::quantity::number_of;
use crate::results::Results;
use crate::settings::Settings;

/// The least time for the crash test of one schedule.
const LEAST_TIME: Duration = Duration::from_secs(1);

/// A check of several schedules.
struct Sweep<'a> {
    arguments: &'a CheckArgs,
    settings: &'a Settings,
    plan: Option<Plan>,
    input: RepeatedInput,
    beginning: Beginning,
    console: &'a Console,
}

pub fn check_schedules(
    arguments: &CheckArgs,
    settings: &Settings,
    out: &Path,
    count: u64,
    console: &Console,
) -> Result<ExitCode, Failure> {
    let mut plan = crash_plan(arguments, settings)?;
    if let Some(plan) = &mut plan {
        plan.is_swept = true;
        let limit = plan.time_limit;
        plan.time_limit = limit.map(|limit| limit.div_f64(count as f64).max(LEAST_TIME));
    }
    let sweep = Sweep {
        arguments,
        settings,
        plan,
        input: RepeatedInput::new(),
        beginning: Beginning::now(),
        console,
    };
    let decisions = Decisions::read(settings)?;
    let directory = OutputDirectory::claim(out)?;
    let first = ThreadSchedule::of_seed(1);
    let (mut results, directory) = sweep.examine(first, &decisions, directory)?;
    results.name_schedule(&first.to_string());
    let mut seen = vec![first];
    if results.steps == 0 && count > 1 {
        console.remark("the program never has several threads: its schedules do not differ");
    } else {
        let mut last_run = directory.file(TRACE);
        for seed in 2..=count {
            let length = results.steps;
            let schedule = ThreadSchedule { seed, length };
            let doing = format!("checking schedule {schedule}");
            results.write_unfinished(&decisions, settings, &directory, &doing)?;
            let (code, why) = match sweep.add(schedule, &mut results, (&directory, &last_run)) {
                Ok(Ok(trace)) => {
                    last_run = trace;
                    seen.push(schedule);
                    continue;
                }
                Ok(Err(why)) => (ExitCode::NothingTested, why),
                Err(failure) => (failure.exit_code(), failure.sentence()),
            };
            let why = format!("schedule {schedule}: {why}");
            results.fall_short(code, Reason::new(ReasonKind::OtherSchedule, why));
            break;
        }
    }
    let names: Vec<String> = seen.iter().map(ThreadSchedule::to_string).collect();
    let tested = format!(
        "{} of the threads: {}",
        number_of(seen.len() as u64, "schedule"),
        names.join(", ")
    );
    console.remark(&tested);
    results.add_tested(tested);
    // A failure from here on concerns the results of all schedules.
    results.write_unfinished(&decisions, settings, &directory, "writing the results")?;
    let directory = Some(&directory);
    results.conclude(decisions, settings, directory, Stream::Error, console)
}

impl Sweep<'_> {
    /// Records the target under a schedule and examines the recording.
    fn examine(
        &self,
        schedule: ThreadSchedule,
        decisions: &Decisions,
        directory: OutputDirectory,
    ) -> Result<(Results, OutputDirectory), Failure> {
        let mut arguments = self.arguments.clone();
        arguments.recording.schedule = Some(schedule);
        self.console.remark(format_args!(
            "running the program under schedule {schedule}"
        ));
        self.input.rewind();
        let run = (&arguments, self.plan.as_ref());
        examine(run, self.settings, decisions, directory, self.console)
    }

    /// Restores the files of the run before, whose trace is `last_run`, examines another schedule, and adds what it shows. Returns
    /// its trace, or says why the files cannot be restored.
    fn add(
        &self,
        schedule: ThreadSchedule,
        results: &mut Results,
        (first, last_run): (&OutputDirectory, &Path),
    ) -> Result<Result<PathBuf, String>, Failure> {
        match Restoration::plan(last_run, &self.beginning, self.settings, self.console)? {
            Ok(files) => files.restore()?,
            Err(why) => return Ok(Err(why)),
        }
        let name = OutputDirectory::part_name(schedule.seed);
        let decisions = Decisions::read(self.settings)?;
        let directory = OutputDirectory::claim(&first.file(&name))?;
        let (mut part, directory) = self.examine(schedule, &decisions, directory)?;
        let schedule = schedule.to_string();
        part.name_schedule(&schedule);
        let new = results.add_schedule(&part, (&schedule, &name));
        if new > 0 {
            self.console.remark(format_args!(
                "schedule {schedule} shows {}",
                number_of(new as u64, "further finding")
            ));
        }
        part.conclude_part(decisions, self.settings, &directory, self.console)?;
        Ok(Ok(directory.file(TRACE)))
    }
}

/// Standard input, which each run of the target reads from the same position if it is a file.
struct RepeatedInput {
    input: Stdin,
    position: Option<u64>,
}

impl RepeatedInput {
    fn new() -> Self {
        let input = std::io::stdin();
        let position = position(&input, SeekFrom::Current(0));
        Self { input, position }
    }

    fn rewind(&self) {
        if let Some(start) = self.position {
            position(&self.input, SeekFrom::Start(start));
        }
    }
}

/// Sets the position of standard input, which it shares with the target; `None` if it has none.
fn position(input: &Stdin, to: SeekFrom) -> Option<u64> {
    let copy = input.as_fd().try_clone_to_owned().ok()?;
    std::fs::File::from(copy).seek(to).ok()
}
