//! Why a command could not do what was asked, and the exit status that tells so.

use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use brownout_crash::CrashError;
use brownout_engine::RecordError;
use brownout_report::{BaselineError, ParseError, SuppressionError};
use brownout_trace::selection::PatternError;
use brownout_trace::{Damage, EventIndex, ReadError};

use crate::config::ConfigError;
use crate::exit_code::ExitCode;

/// What ends a command early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    #[error("the trace {} cannot be read", path.display())]
    TraceIo {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} cannot be used", path.display())]
    Trace {
        path: PathBuf,
        #[source]
        source: ReadError,
    },
    /// The readable part has been dealt with, but it is not all there was.
    #[error("{} is damaged, and only what comes before that was read", path.display())]
    Incomplete {
        path: PathBuf,
        #[source]
        source: Damage,
    },
    #[error("event {event} is not in {}, which holds {events} events", path.display())]
    NoSuchEvent {
        path: PathBuf,
        event: EventIndex,
        events: u64,
    },
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error("the current directory cannot be told")]
    CurrentDirectory(#[source] io::Error),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("a directory for the demo cannot be used")]
    DemoDirectory(#[source] io::Error),
    #[error("no C compiler was found; the demo needs one, such as gcc or clang")]
    NoCompiler,
    #[error("{} could not compile the example", compiler.display())]
    DemoNotCompiled { compiler: OsString },
    #[error("{} is there already; nothing was written", path.display())]
    ImageExists { path: PathBuf },
    #[error("{} is a symbolic link and might lead to your own files; nothing was written", path.display())]
    ImageThroughLink { path: PathBuf },
    #[error("the image {} cannot be written", path.display())]
    Image {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the recorded path {} is not an absolute path that an image can be written for", path.display())]
    ImagePath { path: PathBuf },
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file of suppressions, or a baseline.
    #[error("{} cannot be read", path.display())]
    Decision {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the suppressions in {} cannot be used", path.display())]
    Suppressions {
        path: PathBuf,
        #[source]
        source: SuppressionError,
    },
    #[error("the baseline {} cannot be used", path.display())]
    Baseline {
        path: PathBuf,
        #[source]
        source: BaselineError,
    },
    #[error(
        "{} holds what brownout has not written, and is left alone; name another directory with --out",
        path.display()
    )]
    NotOurs { path: PathBuf },
    #[error("the directory {} cannot be used for results", path.display())]
    OutputDirectory {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} cannot be written", path.display())]
    Written {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} does not hold the results of a check", path.display())]
    Results {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is damaged", path.display())]
    Findings {
        path: PathBuf,
        #[source]
        source: ParseError,
    },
    #[error(transparent)]
    Crash(#[from] CrashError),
    #[error("signals cannot be watched")]
    Signals(#[source] io::Error),
    #[error("name the recovery to try crashes with: --recover CMD")]
    NoRecovery,
    #[error(
        "{option} {function}: the trace holds no call of that function; record with --watch {function}, \
         and see that the name is one of a symbol table (nm)"
    )]
    NotWatched {
        option: &'static str,
        function: String,
    },
    #[error("{option} {name}: {} has no code from that line, or no debug information", program.display())]
    NoFunctionAtLine {
        option: &'static str,
        name: String,
        program: PathBuf,
    },
    #[error("{} is about another trace or other options, and is left alone; use another --out", path.display())]
    OtherAssignment { path: PathBuf },
    #[error("what recovery should print cannot be read from {}", path.display())]
    Expected {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{option} {pattern} is no pattern")]
    Glob {
        option: &'static str,
        pattern: String,
        #[source]
        source: globset::Error,
    },
    #[error("{} holds no results of crash testing", path.display())]
    NoJournal { path: PathBuf },
    #[error("a trace alone does not know findings; give the whole token of one")]
    TokenWanted,
    #[error("{} has not exactly one finding whose id begins with `{finding}`; see {}", path.display(), path.join("findings.jsonl").display())]
    NoSuchFinding { path: PathBuf, finding: String },
    #[error(
        "finding {finding} is of the rule {rule}, which reads it off the trace without any recovery; \
         its stacks and events are all there is to see"
    )]
    NotReplayed { finding: String, rule: String },
    #[error("there is no rule `{rule}`; did you mean `{near}`? `brownout explain` lists all")]
    NoSuchRule { rule: String, near: &'static str },
}

impl Failure {
    /// A trace that could not be read at all.
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

    /// Whether the reader of standard output has gone away.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    pub fn sentence(&self) -> String {
        sentence(self)
    }
}

/// An error and what caused it, outermost first.
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
