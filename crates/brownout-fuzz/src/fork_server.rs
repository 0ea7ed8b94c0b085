//! An executor that copies the target for each execution: at the first use of its input, or before it uses its persistent files.
//!
//! What the target does up to there, such as opening its files and recovery, is done once for each image. It counts as a part of each
//! execution on that image. Recordings and native runs start the target, as [`StartPerRun`] does; so do executions before the
//! persistent files are known, and those of a target that the engine cannot copy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brownout_engine::Repetition;
use brownout_engine::fuzz::{Comparison, CopyEnd, FuzzTarget, InputChannel, PmOperation};
use brownout_recovery::{
    FuzzOutcome, FuzzSandbox, FuzzSandboxError, Outcome, RecordedPath, Recovery, SymbolicInput,
};
use brownout_trace::replay::Content;
use rustc_hash::FxHashSet;

use crate::error::FuzzError;
use crate::executor::{Counts, Execution, ExecutionEnd, Executor};
use crate::image::StartImage;
use crate::start_per_run::{StartPerRun, TargetDescription};

/// Copies the target for each execution.
pub struct ForkServer {
    target: TargetDescription,
    files: Vec<PathBuf>,
    starts: StartPerRun,
    copies: Option<Copies>,
    /// Another target, whose comparisons are captured, once they are asked for; none if it cannot be copied.
    compared: Option<Option<Copies>>,
    /// Why the target is started for each execution, if it is.
    why_not: Option<String>,
    /// The operations that were made.
    operations: FxHashSet<u64>,
}

/// A target that waits to be copied, and the image on which it was opened.
struct Copies {
    sandbox: FuzzSandbox,
    image: Option<StartImage>,
    /// What the target did up to its input.
    opening: Option<FuzzOutcome>,
    /// Whether the last execution was that.
    is_opening: bool,
    /// Operations of executions, not each once.
    operations: Vec<u64>,
}

impl ForkServer {
    pub fn new(target: TargetDescription, files: &[PathBuf]) -> Result<Self, FuzzError> {
        let starts = StartPerRun::new(target.clone(), files)?;
        let mut server = Self {
            target,
            files: files.to_vec(),
            starts,
            copies: None,
            compared: None,
            why_not: None,
            operations: FxHashSet::default(),
        };
        server.start_copies();
        Ok(server)
    }

    /// Starts the target that is copied. If that is not possible, each execution starts the target.
    fn start_copies(&mut self) {
        self.copies = None;
        self.compared = None;
        if self.files.is_empty() {
            self.why_not = Some("its persistent files are not known yet".to_owned());
            return;
        }
        if !self.target.strings.is_empty() {
            let why = "inputs have its arguments or environment variables";
            self.why_not = Some(why.to_owned());
            return;
        }
        match self.copied(false) {
            Ok(copies) => {
                self.why_not = None;
                self.copies = Some(copies);
            }
            Err(error) => self.why_not = Some(error.to_string()),
        }
    }

    /// A target that waits to be copied.
    fn copied(&self, comparisons: bool) -> Result<Copies, FuzzSandboxError> {
        let target = FuzzTarget {
            command: self.target.command.clone(),
            environment: Vec::new(),
            directory: Some(self.target.directory.clone()),
            input: match self.target.is_standard_input {
                true => InputChannel::Stdin,
                false if self.target.is_server => InputChannel::Clients(self.target.input.clone()),
                false => InputChannel::File(self.target.input.clone()),
            },
            files: self.files.clone(),
            fork_at: self.target.fork_at.clone(),
            timeout: self.target.time_limit,
            schedule: self.target.schedule,
            repetition: Repetition::default(),
            comparisons,
        };
        let sandbox = Recovery::new(&self.target.command_line, &self.target.directory);
        let absent = vec![None; self.files.len()];
        let sandbox = FuzzSandbox::start(&self.target.server, &sandbox, &target, &absent)?;
        Ok(Copies {
            sandbox,
            image: None,
            opening: None,
            is_opening: false,
            operations: Vec::new(),
        })
    }
}

impl Copies {
    fn run(
        &mut self,
        image: &StartImage,
        input: &[u8],
        files: usize,
    ) -> Result<FuzzOutcome, FuzzError> {
        let known = self.image.as_ref();
        if !known.is_some_and(|known| Arc::ptr_eq(&known.files, &image.files)) {
            let mut contents = image.files.to_vec();
            contents.resize(files, None);
            self.opening = self.sandbox.set_image(&contents)?;
            self.image = Some(image.clone());
        }
        let ended = self.opening.as_ref();
        let ended = ended.filter(|opening| opening.end != CopyEnd::AtInput);
        self.is_opening = ended.is_some();
        Ok(match ended {
            // The target does not come to its input on this image.
            Some(opening) => opening.clone(),
            None => self.sandbox.execute(input)?,
        })
    }

    fn execute(
        &mut self,
        image: &StartImage,
        input: &[u8],
        files: usize,
    ) -> Result<Execution, FuzzError> {
        let outcome = self.run(image, input, files)?;
        let transitions = |outcome: &FuzzOutcome| -> Counts {
            let counts = outcome.transitions.iter();
            counts
                .map(|(transition, count)| (transition.key(), *count))
                .collect()
        };
        let edges = |outcome: &FuzzOutcome| -> Counts {
            let counts = outcome.edges.iter();
            counts
                .map(|&(edge, count)| (u64::from(edge), u32::from(count)))
                .collect()
        };
        let opening = self.opening.as_ref();
        // Nobody may ask for a long time, and most are known.
        self.operations.clear();
        let made = [Some(&outcome), opening].into_iter().flatten();
        let made = made.flat_map(|outcome| &outcome.transitions);
        self.operations
            .extend(made.map(|(transition, _)| transition.to));
        Ok(Execution {
            end: match outcome.end {
                CopyEnd::Exited(status) => ExecutionEnd::Exited(status),
                CopyEnd::Killed(signal) => ExecutionEnd::Killed(signal),
                CopyEnd::TimedOut => ExecutionEnd::TimedOut,
                // It waits for more input than there is.
                CopyEnd::AtInput => ExecutionEnd::Exited(0),
            },
            duration: outcome.duration,
            transitions: united(&transitions(&outcome), opening.map(transitions)),
            lost_transitions: outcome.lost_transitions
                + opening.map_or(0, |opening| opening.lost_transitions),
            edges: united(&edges(&outcome), opening.map(edges)),
            may_use_others: outcome.wrote_files,
            may_have_used_input: outcome.used_input,
            is_copied: true,
            unpinned: self.sandbox.unpinned().to_vec(),
        })
    }
}

/// The counts of an execution, with those up to its input. What is counted in both counts as often as in the one where it is more frequent:
/// the sum would depend on where the target is copied.
fn united(counts: &Counts, opening: Option<Counts>) -> Counts {
    let mut all: BTreeMap<u64, u32> = counts.iter().copied().collect();
    for (key, count) in opening.into_iter().flatten() {
        let known = all.entry(key).or_default();
        *known = (*known).max(count);
    }
    all.into_iter().collect()
}

impl Executor for ForkServer {
    fn execute(&mut self, image: &StartImage, input: &[u8]) -> Result<Execution, FuzzError> {
        let Some(copies) = &mut self.copies else {
            return self.starts.execute(image, input);
        };
        match copies.execute(image, input, self.files.len()) {
            Ok(execution) => Ok(execution),
            Err(_) => {
                // The target may have destroyed what copies it. A new one is tried once; its error counts.
                self.start_copies();
                match &mut self.copies {
                    Some(copies) => copies.execute(image, input, self.files.len()),
                    None => self.starts.execute(image, input),
                }
            }
        }
    }

    fn comparisons(
        &mut self,
        image: &StartImage,
        input: &[u8],
    ) -> Result<Vec<Comparison>, FuzzError> {
        if self.copies.is_none() {
            return Ok(Vec::new());
        }
        if self.compared.is_none() {
            self.compared = Some(self.copied(true).ok());
        }
        let Some(Some(compared)) = &mut self.compared else {
            return Ok(Vec::new());
        };
        match compared.run(image, input, self.files.len()) {
            Ok(outcome) => Ok(outcome.comparisons),
            // It is only of help, and a new one is made for the next input.
            Err(_) => {
                self.compared = None;
                Ok(Vec::new())
            }
        }
    }

    fn new_operations(&mut self) -> Vec<(u64, PmOperation)> {
        let Some(copies) = &mut self.copies else {
            return Vec::new();
        };
        let mut new = Vec::new();
        for identity in std::mem::take(&mut copies.operations) {
            if !self.operations.contains(&identity)
                && let Ok(Some(operation)) = copies.sandbox.operation(identity)
            {
                self.operations.insert(identity);
                new.push((identity, operation));
            }
        }
        new
    }

    fn files(&mut self) -> Result<Vec<Option<Content>>, FuzzError> {
        match &mut self.copies {
            Some(copies) if !copies.is_opening => Ok(copies.sandbox.files()?),
            Some(copies) => Ok(copies
                .image
                .as_ref()
                .map_or_else(Vec::new, |image| image.files.to_vec())),
            None => self.starts.files(),
        }
    }

    fn persistent(&mut self, image: &StartImage, input: &[u8]) -> Result<Vec<PathBuf>, FuzzError> {
        self.starts.persistent(image, input)
    }

    fn record(
        &mut self,
        image: &StartImage,
        input: &[u8],
        trace: &Path,
    ) -> Result<Outcome, FuzzError> {
        self.starts.record(image, input, trace)
    }

    fn record_path(
        &mut self,
        image: &StartImage,
        input: &[u8],
        inputs: &[SymbolicInput],
    ) -> Result<RecordedPath, FuzzError> {
        self.starts.record_path(image, input, inputs)
    }

    fn diagnose(&mut self, image: &StartImage, input: &[u8]) -> Result<Outcome, FuzzError> {
        self.starts.diagnose(image, input)
    }

    fn use_files(&mut self, files: &[PathBuf]) -> Result<(), FuzzError> {
        self.starts.use_files(files)?;
        self.files = files.to_vec();
        self.start_copies();
        Ok(())
    }

    fn mode(&self) -> String {
        match (&self.copies, &self.why_not) {
            (Some(copies), _) => {
                match (&self.target.fork_at, copies.sandbox.is_copied_at_input()) {
                    (None, _) => copies.sandbox.fork_point().to_owned(),
                    (Some(function), true) => format!("copied before `{function}`"),
                    (Some(function), false) => format!(
                        "{}; `{function}` is not called before, or not by its only thread",
                        copies.sandbox.fork_point()
                    ),
                }
            }
            (None, Some(why)) => format!("started for each execution, because {why}"),
            (None, None) => self.starts.mode(),
        }
    }
}
