//! Runs test cases. The campaign knows executors by this trait only.

use std::path::{Path, PathBuf};
use std::time::Duration;

use brownout_engine::fuzz::{Comparison, PmOperation};
use brownout_recovery::{Outcome, RecordedPath, SymbolicInput};
use brownout_trace::replay::Content;

use crate::error::FuzzError;
use crate::image::StartImage;

/// How often things happened, by their identity, in ascending order of identities. Counts have 32 bits, those of PMFuzz 8.
pub type Counts = Vec<(u64, u32)>;

/// Runs test cases, one after the other. Each starts from the same state, but for its image and its input.
pub trait Executor {
    /// Runs the target, and counts what it does.
    fn execute(&mut self, image: &StartImage, input: &[u8]) -> Result<Execution, FuzzError>;

    /// The comparisons that the target makes; none if they cannot be captured.
    fn comparisons(
        &mut self,
        _image: &StartImage,
        _input: &[u8],
    ) -> Result<Vec<Comparison>, FuzzError> {
        Ok(Vec::new())
    }

    /// The operations on persistent memory, by their identities, that the last execution has made, as far as they are known. Those that
    /// were returned before may be left out.
    fn new_operations(&mut self) -> Vec<(u64, PmOperation)> {
        Vec::new()
    }

    /// The persistent files as the last execution has left them.
    fn files(&mut self) -> Result<Vec<Option<Content>>, FuzzError>;

    /// The persistent files that the target uses on an input.
    fn persistent(&mut self, image: &StartImage, input: &[u8]) -> Result<Vec<PathBuf>, FuzzError>;

    /// Runs the target, and records it to the file `trace`.
    fn record(
        &mut self,
        image: &StartImage,
        input: &[u8],
        trace: &Path,
    ) -> Result<Outcome, FuzzError>;

    /// Runs the target, and records its path from the first byte of these inputs on.
    fn record_path(
        &mut self,
        image: &StartImage,
        input: &[u8],
        inputs: &[SymbolicInput],
    ) -> Result<RecordedPath, FuzzError>;

    /// Runs the target natively, and determines where it fails.
    fn diagnose(&mut self, image: &StartImage, input: &[u8]) -> Result<Outcome, FuzzError>;

    /// Runs the target from now on with these persistent files, the content of which images have in this order.
    fn use_files(&mut self, files: &[PathBuf]) -> Result<(), FuzzError>;

    /// How executions start, in a phrase.
    fn mode(&self) -> String;
}

/// How an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionEnd {
    Exited(i32),
    Killed(i32),
    TimedOut,
    OutOfMemory,
}

impl ExecutionEnd {
    /// Whether the target failed in a way that no input excuses.
    pub fn is_failure(self) -> bool {
        !matches!(self, Self::Exited(_))
    }
}

/// What one execution has shown.
#[derive(Clone, Debug)]
pub struct Execution {
    pub end: ExecutionEnd,
    pub duration: Duration,
    /// Transitions between operations on persistent memory.
    pub transitions: Counts,
    /// Transitions that were not counted, because there were too many different ones.
    pub lost_transitions: u32,
    /// Parts of the code.
    pub edges: Counts,
    /// Whether the run may have used persistent files that are not known.
    pub may_use_others: bool,
    /// Whether the target has used the input, or that is not known. If not, all inputs lead to the same execution.
    pub may_have_used_input: bool,
    /// Whether a copy of the target has made it: identities of transitions and of code are others than those of a target that was started.
    pub is_copied: bool,
    /// What can make executions of the same test case differ, one phrase each.
    pub unpinned: Vec<String>,
}
