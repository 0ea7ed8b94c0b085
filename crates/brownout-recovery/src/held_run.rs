//! A target that is run again, in a sandbox, while its threads are held.
//!
//! The sandbox shows the persistent files as they were when the recorded run started, and discards what the target writes. What the
//! target does is in a trace.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use brownout_engine::{CodeLocation, HoldPlan, WatchedFunction};
use brownout_trace::replay::Content;
use serde::{Deserialize, Serialize};

use crate::path_text;
use crate::{EngineRun, ExecutionMode, Outcome, RecoveryRunner, RunRequest, RunnerError};

/// What the sandbox may take longer than the target.
const SANDBOX_TIME: Duration = Duration::from_secs(10);

/// What an engine host has to run. Paths and arguments are as in [`path_text`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeldRun {
    command: Vec<String>,
    patterns: Vec<String>,
    watch: Vec<(String, u8)>,
    store: Vec<(String, u64)>,
    wait: Option<(String, u64)>,
    output_functions: Vec<String>,
    longest_hold: Duration,
    time_limit: Duration,
}

impl HeldRun {
    /// A run of `command`, whose calls of `watch` are recorded. `patterns` are those of the recorded run.
    pub fn new(
        command: &[OsString],
        patterns: &[OsString],
        watch: &[WatchedFunction],
        plan: &HoldPlan,
    ) -> Self {
        let texts = |all: &[OsString]| {
            let texts = all.iter();
            texts
                .map(|one| path_text::to_text(Path::new(one)))
                .collect()
        };
        let place = |at: &CodeLocation| (path_text::to_text(&at.path), at.offset);
        Self {
            command: texts(command),
            patterns: texts(patterns),
            watch: watch
                .iter()
                .map(|function| (function.name.to_string(), function.arguments))
                .collect(),
            store: plan.store.iter().map(place).collect(),
            wait: plan.wait.as_ref().map(place),
            output_functions: plan.output_functions.clone(),
            longest_hold: plan.longest_hold,
            time_limit: plan.time_limit,
        }
    }

    /// A run of `command` in which no thread is held: it is only recorded, without its loads.
    pub fn recorded(
        command: &[OsString],
        patterns: &[OsString],
        watch: &[WatchedFunction],
        time_limit: Duration,
    ) -> Self {
        let nothing = HoldPlan {
            store: Vec::new(),
            wait: None,
            output_functions: Vec::new(),
            longest_hold: Duration::ZERO,
            time_limit,
        };
        Self::new(command, patterns, watch, &nothing)
    }

    /// Whether threads are held.
    pub(crate) fn holds(&self) -> bool {
        !self.store.is_empty()
    }

    pub(crate) fn command(&self) -> Vec<OsString> {
        os_texts(&self.command)
    }

    pub(crate) fn patterns(&self) -> Vec<OsString> {
        os_texts(&self.patterns)
    }

    pub(crate) fn watch(&self) -> Vec<WatchedFunction> {
        let watch = self.watch.iter();
        watch
            .map(|(name, arguments)| WatchedFunction {
                name: name.clone().into(),
                arguments: *arguments,
            })
            .collect()
    }

    pub(crate) fn plan(&self) -> HoldPlan {
        let place = |(path, offset): &(String, u64)| {
            let path = path_text::from_text(path)?;
            Some(CodeLocation {
                path,
                offset: *offset,
            })
        };
        HoldPlan {
            store: self.store.iter().filter_map(place).collect(),
            wait: self.wait.as_ref().and_then(place),
            output_functions: self.output_functions.clone(),
            longest_hold: self.longest_hold,
            time_limit: self.time_limit,
        }
    }
}

pub(crate) fn os_texts(all: &[String]) -> Vec<OsString> {
    let texts = all.iter();
    texts
        .filter_map(|text| path_text::from_text(text))
        .map(Into::into)
        .collect()
}

impl RecoveryRunner {
    /// Runs a target on an image, in place of recovery, while its threads are held. `trace` is an empty file, which gets its events.
    pub fn run_held(
        &mut self,
        image: &[Option<Content>],
        held: &HeldRun,
        trace: &Arc<File>,
    ) -> Result<Outcome, RunnerError> {
        let question = postcard::to_stdvec(held)
            .map_err(|error| RunnerError::Target(io::Error::other(error)))?;
        trace
            .write_all_at(&question, 0)
            .map_err(RunnerError::Target)?;
        let engine = EngineRun {
            trace: Some(Arc::clone(trace)),
            held: true,
            ..EngineRun::default()
        };
        let request = RunRequest {
            execution: ExecutionMode::Engine(engine),
            ..RunRequest::new(held.time_limit + SANDBOX_TIME)
        };
        self.run(image, request)
    }
}
