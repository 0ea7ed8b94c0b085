//! Runs the program again while the storing thread of one race is held, and examines the trace of that run.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use brownout_crash::CrashError;
use brownout_engine::{HoldPlan, WatchedFunction};
use brownout_race::{ForcedOutcome, Harm, RaceDetector, RaceOptions, RawRace};
use brownout_recovery::{End, HeldRun, RecoveryRunner};
use brownout_report::FindingId;
use brownout_trace::replay::Content;

use super::Confirmation;
use super::forced_code::ForcedCode;
use super::forcing_outcome::{ForcingOutcome, Reproduction, lock_text};
use super::hold_choice::Hold;
use super::lost_store::crash;
use crate::console::Console;
use crate::failure::Failure;
use crate::race_run::recognised_locks;
use crate::settings::Settings;
use crate::trace_file::TraceFile;

/// How long a thread is held at most, if the others run on.
const LONGEST_HOLD: Duration = Duration::from_secs(2);
/// A run with holds may take this many times as long as the recorded one, and this long in any case.
const RUN_FACTOR: u32 = 10;
const SHORTEST_RUN: Duration = Duration::from_secs(15);

/// The program, to be run again.
pub struct TargetAgain {
    pub runner: RecoveryRunner,
    /// What the persistent files may have been at the start. The first is tried first.
    pub images: Vec<Vec<Option<Content>>>,
    /// Files whose content at the start is not known completely.
    pub unknown: Vec<PathBuf>,
    pub command: Vec<OsString>,
    pub patterns: Vec<OsString>,
    /// How long the recorded run took.
    pub recorded_wall: Duration,
}

/// A run in which one race is forced.
pub struct ForcedRun<'a> {
    hold: &'a Hold,
    finding: &'a FindingId,
    settings: &'a Settings,
    how: &'a Confirmation<'a>,
}

/// What the trace of a forced run shows.
struct Examined {
    forced: ForcedOutcome,
    /// What the reader did with the store, if that depends on it.
    harm: Option<Harm>,
    /// The locks that kept the reader waiting.
    locks: Vec<String>,
}

/// How a forced run ended.
struct Ended {
    end: End,
    after: Duration,
}

impl<'a> ForcedRun<'a> {
    pub fn new(
        hold: &'a Hold,
        finding: &'a FindingId,
        settings: &'a Settings,
        how: &'a Confirmation<'a>,
    ) -> Self {
        Self {
            hold,
            finding,
            settings,
            how,
        }
    }

    /// Forces the race, within `left`, and says what came of it.
    pub fn judge(
        &self,
        target: &mut TargetAgain,
        left: Duration,
        console: &Console,
    ) -> Result<ForcingOutcome, Failure> {
        let kept = self
            .how
            .directory
            .map(|directory| directory.forced_trace(self.finding));
        let temporary = tempfile::NamedTempFile::new().map_err(Failure::TemporaryFile)?;
        let path = kept.clone().unwrap_or_else(|| temporary.path().to_owned());
        let outcome = self.force(target, &path, left, console);
        let is_proof = outcome.as_ref().is_ok_and(ForcingOutcome::is_confirmed);
        if let Some(kept) = kept.filter(|_| !is_proof) {
            // No finding refers to it.
            let _ = std::fs::remove_file(kept);
        }
        outcome
    }

    fn force(
        &self,
        target: &mut TargetAgain,
        path: &Path,
        left: Duration,
        console: &Console,
    ) -> Result<ForcingOutcome, Failure> {
        let usual = (target.recorded_wall * RUN_FACTOR).max(SHORTEST_RUN);
        let limit = usual.min(left);
        let mut last = None;
        for number in 0..target.images.len() {
            let ended = self.run(target, number, path, limit)?;
            let mut trace = TraceFile::open(path)?;
            let examined = self.examine(&mut trace, console)?;
            let made = examined.forced.stores > 0;
            last = Some((trace, examined, ended));
            if made {
                // Other races start from the same files.
                target.images.swap(0, number);
                target.images.truncate(1);
                break;
            }
        }
        match last {
            Some((_, examined, _)) if examined.forced.stores == 0 => {
                Ok(ForcingOutcome::NotForced(no_store(&target.unknown)))
            }
            Some((trace, examined, ended)) => self.conclude(trace, examined, &ended, console),
            None => Ok(ForcingOutcome::NotForced(
                "the program has no persistent files".to_owned(),
            )),
        }
    }

    fn run(
        &self,
        target: &mut TargetAgain,
        image: usize,
        path: &Path,
        limit: Duration,
    ) -> Result<Ended, Failure> {
        let plan = HoldPlan {
            store: self.hold.store.clone(),
            wait: self.hold.wait.clone(),
            output_functions: brownout_race::output_functions()
                .map(|function| function.name.to_owned())
                .collect(),
            longest_hold: LONGEST_HOLD,
            time_limit: limit,
        };
        let own = self.settings.own_functions().map(WatchedFunction::named);
        let known = brownout_race::watched_functions().chain(brownout_race::output_functions());
        let known = known.map(|function| WatchedFunction {
            name: function.name.into(),
            arguments: function.arguments,
        });
        let watch: Vec<WatchedFunction> = known.chain(own).collect();
        let held = HeldRun::new(&target.command, &target.patterns, &watch, &plan);
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map_err(|source| Failure::TraceIo {
                path: path.to_owned(),
                source,
            })?;
        let image = &target.images[image];
        let started = Instant::now();
        let outcome = target.runner.run_held(image, &held, &Arc::new(file));
        Ok(Ended {
            end: outcome.map_err(CrashError::from)?.end,
            after: started.elapsed(),
        })
    }

    fn examine(&self, trace: &mut TraceFile, console: &Console) -> Result<Examined, Failure> {
        let patterns = trace.patterns(&self.settings.patterns)?;
        let options = RaceOptions {
            profile: self.settings.model,
            removes_initialisation: false,
            locks: self.settings.locks.clone(),
            allocators: self.settings.allocators.clone(),
            recognised: recognised_locks(trace, console)?,
        };
        let code = ForcedCode::new(&trace.header().cwd, self.hold);
        let mut detector = RaceDetector::new(options, code);
        let mut progress = console.progress("examining a forced race", Some(trace.events()));
        trace.visit(&mut progress, &mut detector)?;
        drop(progress);
        let outcome = detector.finish(trace.definitions(), patterns.as_ref());
        let is_it = |race: &&RawRace| {
            use brownout_race::TargetCode as _;
            outcome.code.forced_roles(race.store.site).store
        };
        let harm = outcome
            .races
            .iter()
            .filter(is_it)
            .map(|race| race.first_load().harm);
        let harm = harm.min().filter(|harm| *harm != Harm::Unknown);
        let locks = outcome.forced.blocking.iter();
        Ok(Examined {
            locks: locks
                .map(|&lock| lock_text(lock, trace.definitions()))
                .collect(),
            harm,
            forced: outcome.forced,
        })
    }

    fn conclude(
        &self,
        trace: TraceFile,
        examined: Examined,
        ended: &Ended,
        console: &Console,
    ) -> Result<ForcingOutcome, Failure> {
        let forced = &examined.forced;
        let read = forced.reads.first();
        if let Some((read, act)) = read.and_then(|read| Some((read, read.act?))) {
            let lost = crash(trace, read, act, (self.settings, self.how), console)?;
            return Ok(match lost {
                Some(lost) => ForcingOutcome::Reproduced(Box::new(Reproduction {
                    act,
                    harm: examined.harm,
                    verdict: lost.verdict,
                    token: lost.token,
                    state: lost.state,
                })),
                None => ForcingOutcome::NotForced(
                    "the store was durable before the reader acted on it".to_owned(),
                ),
            });
        }
        if read.is_none() && !examined.locks.is_empty() {
            return Ok(ForcingOutcome::Blocked {
                locks: examined.locks,
            });
        }
        let why = match read {
            Some(_) => "the reader has loaded it, but neither made anything durable nor sent anything out before it was durable".to_owned(),
            None => format!(
                "no other thread loaded it while the storing thread was held; the run {}",
                ended.describe()
            ),
        };
        Ok(ForcingOutcome::NotForced(why))
    }
}

/// Why the store was not made.
fn no_store(unknown: &[PathBuf]) -> String {
    let missed = "the program did not come to the store when it ran again";
    match unknown {
        [] => missed.to_owned(),
        [path, ..] => format!(
            "{missed}; the content of {} at the start is not known, because the recorded run has not mapped all of it",
            path.display()
        ),
    }
}

impl Ended {
    fn describe(&self) -> String {
        let how = match self.end {
            End::TimedOut => "reached its time limit",
            _ => "ended",
        };
        format!("{how} after {:.1} s", self.after.as_secs_f64())
    }
}
