//! Where recovery is tried on one image after the other.

use std::io;
use std::time::Duration;

use crate::image::{CrashImage, lay_out};
use crate::operation::Operation;
use crate::recovery::{Outcome, RawFrame, Recovery, Run, Sandbox, SandboxError};
use crate::verdict::{Expectation, Verdict};

/// How much longer a recovery may take that was not done in time, before it counts as hung.
const PATIENCE: u32 = 4;

/// What a recovery is told about the crash it recovers from, and how long it may take.
#[derive(Clone, Debug)]
pub struct Circumstances {
    pub event: u64,
    /// `None` where operations are not counted.
    pub operation: Option<Operation>,
    pub time_limit: Duration,
}

impl Circumstances {
    fn run(&self, trace: bool) -> Run {
        let mut environment = vec![("BROWNOUT_EVENT".to_owned(), self.event.to_string())];
        if let Some(operation) = self.operation {
            let active = u8::from(operation.active);
            environment.push(("BROWNOUT_OP".to_owned(), operation.completed.to_string()));
            environment.push(("BROWNOUT_OP_ACTIVE".to_owned(), active.to_string()));
        }
        Run {
            environment,
            trace,
            ..Run::new(self.time_limit)
        }
    }
}

/// What became of one image.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub verdict: Verdict,
    pub duration: Duration,
    /// The last lines printed, if recovery did not pass.
    pub output: Vec<String>,
    /// Where recovery was when it failed, innermost first.
    pub frames: Vec<RawFrame>,
    /// Run again, it came to something else.
    pub again: Option<Verdict>,
}

/// A sandbox and what is expected of recovery in it.
#[derive(Debug)]
pub struct Bench {
    sandbox: Sandbox,
    recovery: Recovery,
    expected: Expectation,
}

/// Why an image could not be tried. None of this is the fault of recovery.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("a crash image cannot be written; is there room for it in memory?")]
    Image(#[source] io::Error),
    #[error("a thread that tried images has died")]
    Lost,
}

impl Bench {
    pub fn new(sandbox: Sandbox, recovery: Recovery, expected: Expectation) -> Self {
        Self {
            sandbox,
            recovery,
            expected,
        }
    }

    /// Whether recovery passes, and nothing else: for images that are tried to learn from.
    pub fn passes(
        &mut self,
        image: &CrashImage,
        circumstances: &Circumstances,
    ) -> Result<bool, BenchError> {
        let outcome = self.run(image, &circumstances.run(false))?;
        Ok(self.verdict(&outcome, circumstances).passed())
    }

    /// Runs recovery on the user's terminal, however long it takes.
    pub fn hand_over(
        &mut self,
        image: &CrashImage,
        circumstances: &Circumstances,
    ) -> Result<(), BenchError> {
        let run = Run {
            interactive: true,
            ..circumstances.run(false)
        };
        self.run(image, &run)?;
        Ok(())
    }

    /// Runs recovery. One that does not pass is run again to learn where it failed, and one that was not done in
    /// time to learn whether more time would have helped.
    pub fn attempt(
        &mut self,
        image: &CrashImage,
        circumstances: &Circumstances,
    ) -> Result<Attempt, BenchError> {
        let outcome = self.run(image, &circumstances.run(false))?;
        let verdict = self.verdict(&outcome, circumstances);
        if verdict.passed() {
            return Ok(Attempt {
                verdict,
                duration: outcome.duration,
                output: Vec::new(),
                frames: Vec::new(),
                again: None,
            });
        }
        let mut second_run = circumstances.run(true);
        if verdict == Verdict::Hung {
            second_run.time_limit *= PATIENCE;
        }
        let second = self.run(image, &second_run)?;
        let again = self.verdict(&second, circumstances);
        // With more time it may come to an end, and that is then what counts.
        let slow = verdict == Verdict::Hung && again != Verdict::Hung;
        let same = verdict == again;
        let told = if slow || same { &second } else { &outcome };
        let output = last_lines(told);
        Ok(Attempt {
            verdict: if slow { again.clone() } else { verdict },
            duration: told.duration,
            output,
            frames: if slow || same {
                second.frames
            } else {
                outcome.frames
            },
            again: (!slow && !same).then_some(again),
        })
    }

    fn verdict(&self, outcome: &Outcome, circumstances: &Circumstances) -> Verdict {
        let operation = circumstances.operation.unwrap_or_default();
        Verdict::of(outcome, &self.recovery, &self.expected, operation)
    }

    /// One run of recovery on an image, whatever comes of it.
    fn run(&mut self, image: &CrashImage, run: &Run) -> Result<Outcome, BenchError> {
        let files = self.sandbox.files()?;
        let mut absent = Vec::new();
        for (number, (content, file)) in image.files.iter().zip(files).enumerate() {
            match content {
                Some(content) => lay_out(content, file).map_err(BenchError::Image)?,
                None => absent.push(number),
            }
        }
        let run = Run {
            absent,
            ..run.clone()
        };
        Ok(self.sandbox.run(&run)?)
    }
}

/// Lines of output that are told of a recovery that failed.
const LINES: usize = 12;
/// Longer ones are cut.
const COLUMNS: usize = 400;

/// What a person would have seen last: standard error, or else standard output.
fn last_lines(outcome: &Outcome) -> Vec<String> {
    let printed = [&outcome.stderr, &outcome.stdout]
        .into_iter()
        .find(|stream| !stream.trim_ascii().is_empty());
    let Some(printed) = printed else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(printed.trim_ascii_end());
    let lines: Vec<&str> = text.lines().collect();
    let skipped = lines.len().saturating_sub(LINES);
    lines[skipped..]
        .iter()
        .map(|line| line.chars().take(COLUMNS).collect())
        .collect()
}
