//! Why a command failed: the message and the exit code.

use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use brownout_crash::{CrashError, StrategyId, TokenError};
use brownout_engine::RecordError;
use brownout_fuzz::{DictionaryError, FuzzError, GrammarError};
use brownout_recovery::CommandProblem;
use brownout_report::{BaselineError, ParseError, SuppressionError};
use brownout_trace::selection::PatternError;
use brownout_trace::{Damage, EventIndex, ReadError};

use crate::behaviour_memory::MemoryError;
use crate::config::ConfigError;
use crate::exit_code::ExitCode;
use crate::quantity::number_of;

/// What ends a command early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    #[error("cannot read trace `{}`", path.display())]
    TraceIo {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot open trace `{}`", path.display())]
    Trace {
        path: PathBuf,
        #[source]
        source: ReadError,
    },
    /// The readable part was processed, but the rest of the trace is missing.
    #[error("trace `{}` is damaged; only the part before the damage was read", path.display())]
    Incomplete {
        path: PathBuf,
        #[source]
        source: Damage,
    },
    #[error("event {event} is not in trace `{}`, which has {} numbered from 0", path.display(), number_of(*events, "event"))]
    NoSuchEvent {
        path: PathBuf,
        event: EventIndex,
        events: u64,
    },
    #[error("no events to print: --from {from} is after --to {to}")]
    EmptyRange { from: u64, to: u64 },
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error("cannot determine the current directory")]
    CurrentDirectory(#[source] io::Error),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("cannot use a temporary directory for repairs")]
    FixDirectory(#[source] io::Error),
    #[error("cannot write the trace with the added flushes and fences")]
    PatchedTrace(#[source] brownout_trace::WriteError),
    #[error(
        "the repairs of two findings change the same part of a file; repair one of them first: `brownout fix DIR FINDING`"
    )]
    RepairsConflict,
    #[error("whether git can restore `{}` is not known ({why}); let git read its repository, or give --force", path.display())]
    GitFailed { path: PathBuf, why: String },
    #[error("`{}` has changed while it was being repaired; nothing was changed", path.display())]
    SourceChanged { path: PathBuf },
    #[error("`{}` has uncommitted changes or is not tracked by git; commit it, or give --force", path.display())]
    Uncommitted { path: PathBuf },
    #[error(
        "cannot create a private view of the file system here, so --build would change your files; build the \
         patched sources yourself and check the program again"
    )]
    NoPrivateView,
    #[error("cannot use the plan of added flushes and fences `{}`", path.display())]
    PatchPlan {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot use the directory for the demo")]
    DemoDirectory(#[source] io::Error),
    #[error("no C compiler found; install gcc or clang, or set CC")]
    NoCompiler,
    #[error("`{}` failed to compile the example program", compiler.display())]
    DemoNotCompiled { compiler: OsString },
    #[error("`{}` already exists; no image was written", path.display())]
    ImageExists { path: PathBuf },
    #[error("`{}` is a symbolic link and might lead to your own files; no image was written", path.display())]
    ImageThroughLink { path: PathBuf },
    #[error("cannot write image `{}`", path.display())]
    Image {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write an image for `{}`: the recorded path is not an absolute path without `..`", path.display())]
    ImagePath { path: PathBuf },
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A suppression file or a baseline.
    #[error("cannot read `{}`", path.display())]
    Decision {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot use the suppressions in `{}`", path.display())]
    Suppressions {
        path: PathBuf,
        #[source]
        source: SuppressionError,
    },
    #[error("cannot use baseline `{}`", path.display())]
    Baseline {
        path: PathBuf,
        #[source]
        source: BaselineError,
    },
    #[error(
        "`{}` contains files that brownout did not write; choose another directory with --out",
        path.display()
    )]
    NotOurs { path: PathBuf },
    #[error(
        "`{}` contains a campaign of `brownout fuzz` or `brownout symex`, which is not replaced; choose another directory with --out, or remove it",
        path.display()
    )]
    HoldsCampaign { path: PathBuf },
    #[error(
        "`{}` contains a campaign of `brownout fuzz`, which has no trace of its own; give the results on one of its inputs, such as `{}`",
        path.display(), path.join("input-0").display()
    )]
    NoTraceOfCampaign { path: PathBuf },
    #[error(
        "`{}` contains a campaign of another program, or of other arguments; choose another directory with --out",
        path.display()
    )]
    OtherCampaign { path: PathBuf },
    #[error(transparent)]
    Fuzz(#[from] FuzzError),
    #[error(transparent)]
    Dictionary(#[from] DictionaryError),
    #[error(transparent)]
    Grammar(#[from] GrammarError),
    #[error("cannot read the seeds in `{}`", path.display())]
    Seeds {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` contains no files: give a directory with inputs to --seeds, or leave it out", path.display())]
    NoSeeds { path: PathBuf },
    #[error("an argument of the program is not UTF-8: {}", argument.display())]
    ArgumentNotUtf8 { argument: OsString },
    #[error("cannot solve for `{input}`: {why}")]
    NotSymbolic { input: String, why: String },
    #[error("cannot run `{}`: {why}", program.display())]
    FuzzedProgram { program: OsString, why: String },
    #[error("@@ and --server exclude each other: the input is a file, or what clients send")]
    InputTwice,
    #[error("cannot determine the path of brownout itself")]
    OwnProgram(#[source] io::Error),
    #[error("cannot run `{}` as a server", program.display())]
    Server {
        program: OsString,
        #[source]
        source: io::Error,
    },
    #[error("cannot read the input `{}`", path.display())]
    Input {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot use directory `{}` for results", path.display())]
    OutputDirectory {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write `{}`", path.display())]
    Written {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` is not a results directory of `brownout check` or `brownout crash`", path.display())]
    Results {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` is damaged; run the check again", path.display())]
    DamagedResults {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("the results in `{}` are incomplete: `{}` cannot be read", path.parent().unwrap_or(path).display(), path.file_name().unwrap_or_default().display())]
    ResultsFile {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` is damaged", path.display())]
    Findings {
        path: PathBuf,
        #[source]
        source: ParseError,
    },
    #[error(
        "the number of findings in `{}` is {found}, but run.json says {counted}: the results are damaged; run the check again",
        path.display()
    )]
    OtherFindings {
        path: PathBuf,
        found: usize,
        counted: usize,
    },
    #[error(transparent)]
    Crash(#[from] CrashError),
    #[error("cannot create a temporary file")]
    TemporaryFile(#[source] io::Error),
    #[error("cannot install signal handlers")]
    Signals(#[source] io::Error),
    #[error("no recovery command; give one with --recover CMD or in brownout.toml")]
    NoRecovery,
    #[error("cannot use {option}")]
    Command {
        option: &'static str,
        #[source]
        source: CommandProblem,
    },
    #[error("{options}: no effect without --recover CMD; give a recovery, or leave {} out", if *several { "these options" } else { "this option" })]
    NoEffect { options: String, several: bool },
    #[error(
        "{option} cannot be used with --strategy {strategy}, which tries every crash that can differ"
    )]
    StrategyTriesAll {
        option: &'static str,
        strategy: &'static str,
    },
    #[error(
        "{option} has no effect with --strategy {strategy}; give --strategy exhaustive, or leave it out"
    )]
    NotExploring {
        option: &'static str,
        strategy: &'static str,
    },
    #[error(
        "--occurrences has no effect with --strategy {strategy}; give --strategy auto, or leave it out"
    )]
    OnlyReorders { strategy: &'static str },
    #[error(
        "--strategy {strategy} has nothing to test under --model {model}, where stores persist in program order; \
         give --strategy auto"
    )]
    NothingReordered {
        strategy: &'static str,
        model: &'static str,
    },
    #[error(
        "--memory has no effect with --strategy {strategy}; give --strategy representative or exhaustive, or leave it out"
    )]
    NoBehaviours { strategy: &'static str },
    #[error(
        "--memory cannot be combined with --shard: one shard does not test all crashes of an update behaviour"
    )]
    MemoryOfPart,
    #[error(
        "--memory cannot be combined with --depth: what recovery writes is not remembered; leave one of them out"
    )]
    MemoryOfDepth,
    #[error(
        "--memory cannot be used with --resume and --strategy {strategy}: the earlier test may have observed other bytes; leave one of them out"
    )]
    ResumedMemory { strategy: &'static str },
    #[error("cannot use `{}` with --memory", path.display())]
    Memory {
        path: PathBuf,
        #[source]
        source: MemoryError,
    },
    #[error("--recover-ready has no effect without --client CMD")]
    NoClient,
    #[error("nothing to merge; give the results directory of each part")]
    NoParts,
    #[error("{option} {function}: {why}")]
    NeverCalled {
        option: &'static str,
        function: String,
        why: String,
    },
    #[error(
        "--after {function}: the function was called, but did not return before the end of the run"
    )]
    NeverReturned { function: String },
    #[error("--after {function}: no failure point follows its return (before it: {before})")]
    NoPointAfter { function: String, before: String },
    #[error("{option} {text}: no failure point matches; {instead}")]
    NoPointMatches {
        option: &'static str,
        text: String,
        instead: String,
    },
    #[error(
        "no failure point matches all of {filters}; filters of different kinds must match the same call stack"
    )]
    NoPointMatchesAll { filters: String },
    #[error("{option} {name}: `{}` has no code for that line, or no debug information", program.display())]
    NoFunctionAtLine {
        option: &'static str,
        name: String,
        program: PathBuf,
    },
    #[error("`{}` contains results for another trace or other options; choose another directory with --out", path.display())]
    OtherConfiguration { path: PathBuf },
    #[error("`{}` contains results for other options; give the same options, or choose another directory with --out", path.display())]
    OtherOptions { path: PathBuf },
    #[error(
        "`{}` contains results of another build of the recovery program; \
         choose another directory with --out, or start again without --resume",
        path.display()
    )]
    RecoveryChanged { path: PathBuf },
    #[error("`{}` has changed since it was recorded; run without --resume to record it again", path.display())]
    ProgramChanged { path: PathBuf },
    #[error(
        "`{}` contains results of the strategy {found}, which cannot be combined with those of {wanted}; \
         choose another directory with --out, or start again without --resume",
        path.display()
    )]
    OtherStrategy {
        path: PathBuf,
        found: StrategyId,
        wanted: StrategyId,
    },
    #[error("cannot read the expected output of recovery from `{}`", path.display())]
    Expected {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{option}: invalid pattern `{pattern}`")]
    Glob {
        option: &'static str,
        pattern: String,
        #[source]
        source: globset::Error,
    },
    #[error("`{}` contains no crash-testing results", path.display())]
    NoJournal { path: PathBuf },
    #[error(
        "a trace contains no findings; give the full replay token of a finding instead of its id"
    )]
    TokenWanted,
    #[error("`{finding}` does not identify one finding in `{}`; the ids are in `{}`", path.display(), path.join("findings.jsonl").display())]
    NoSuchFinding { path: PathBuf, finding: String },
    #[error("`{}` has no findings of the rule {rule}: there is nothing to repair", path.display())]
    NoFindingOfRule { path: PathBuf, rule: String },
    #[error(
        "finding {finding} cannot be replayed: rule {rule} reports it from the trace, and {why}; \
         `brownout dump` shows its events"
    )]
    NotReplayed {
        finding: String,
        rule: String,
        why: &'static str,
    },
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("`{}`, line {line}: no rule `{rule}`;{} `brownout explain` lists all rules", path.display(), did_you_mean(*near))]
    SuppressedRule {
        path: PathBuf,
        line: usize,
        rule: String,
        near: Option<&'static str>,
    },
    #[error(
        "`{}` is in use by another brownout; wait until it ends, or choose another directory with --out",
        path.display()
    )]
    InUse { path: PathBuf },
    #[error("`{}` exists and is not a trace; it was not overwritten: choose another path with -o", path.display())]
    NotOverwritten { path: PathBuf },
    #[error("cannot restore `{}` for the next run", path.display())]
    RestoreFile {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` is the trace to compare with and the one to write; choose another path with -o", path.display())]
    ComparedWithItself { path: PathBuf },
    #[error("this token belongs to a different trace, not to `{}`", path.display())]
    OtherTrace { path: PathBuf },
    #[error("no rule `{rule}`;{} `brownout explain` lists all rules", did_you_mean(*near))]
    NoSuchRule {
        rule: String,
        near: Option<&'static str>,
    },
}

/// A question about a similar name, if there is one.
pub fn did_you_mean(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!(" did you mean `{near}`?"))
}

impl Failure {
    /// A trace that could not be opened.
    pub fn trace(path: &Path, error: ReadError) -> Self {
        let path = path.to_owned();
        match error {
            ReadError::Io(source) => Self::TraceIo { path, source },
            source => Self::Trace { path, source },
        }
    }

    pub fn exit_code(&self) -> ExitCode {
        if self.is_broken_pipe() {
            ExitCode::Success
        } else {
            ExitCode::Usage
        }
    }

    /// Whether the reader of standard output closed the pipe.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    pub fn sentence(&self) -> String {
        sentence(self)
    }
}

/// The error and its causes, outermost first, separated by colons.
pub fn sentence(error: &dyn Error) -> String {
    let mut sentence = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        sentence.push_str(": ");
        sentence.push_str(&error.to_string());
        cause = error.source();
    }
    sentence
}
