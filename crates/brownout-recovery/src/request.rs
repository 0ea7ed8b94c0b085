//! What a caller asks for: a recovery, its isolation, and single runs of it.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A recovery as the user described it.
///
/// In its commands, `{pm}` stands for the path of the first persistent file, `{pm:2}` for that of the second, and so on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// The command line; it runs through a shell if it contains anything that only a shell understands.
    pub command: String,
    /// A client command that runs against the recovered program, which is then a server; the exit of the client decides.
    pub client: Option<String>,
    /// When the server is ready. If not given, the client starts at once.
    pub ready: Option<Readiness>,
    /// Where the commands run.
    #[serde(with = "crate::path_text")]
    pub directory: PathBuf,
    /// Exit statuses that mean success.
    pub success: Vec<i32>,
    /// Whether recovery may use the network of this machine.
    pub network: bool,
    /// The limit on the anonymous memory of all processes of a run together, in bytes.
    pub memory_limit: Option<u64>,
    /// The limit on the size of a file, in bytes.
    pub file_size_limit: Option<u64>,
    /// The limit on the size of all private files together, images included, in bytes; half of the machine's memory if not
    /// given.
    pub disk_limit: Option<u64>,
    /// The time between asking a server to stop and killing it.
    pub stop_grace: Duration,
}

impl Recovery {
    /// A recovery that succeeds with status 0, without network access and without limits other than time.
    pub fn new(command: impl Into<String>, directory: impl Into<PathBuf>) -> Self {
        Self {
            command: command.into(),
            client: None,
            ready: None,
            directory: directory.into(),
            success: vec![0],
            network: false,
            memory_limit: None,
            file_size_limit: None,
            disk_limit: None,
            stop_grace: Duration::from_secs(2),
        }
    }
}

/// The sign that a server is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Readiness {
    /// Something listens on this port.
    Tcp(u16),
    /// Something listens on this socket.
    Unix(PathBuf),
    /// This file exists.
    File(PathBuf),
    /// The server has printed this text.
    Output(String),
}

/// One run of a recovery.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// From start to verdict.
    pub time_limit: Duration,
    /// Environment variables beyond those that brownout itself has.
    pub environment: Vec<(String, String)>,
    /// Numbers of the persistent files that do not exist in this run.
    pub absent: Vec<usize>,
    pub execution: ExecutionMode,
    /// Recovery gets the user's terminal, and no time limit.
    pub interactive: bool,
    /// How long other processes may run on when the first process of recovery has ended, and not use persistent files, before they count as
    /// left behind. If it is zero, they do not count.
    pub patience: Duration,
}

impl RunRequest {
    /// A native run.
    pub fn new(time_limit: Duration) -> Self {
        Self {
            time_limit,
            environment: Vec::new(),
            absent: Vec::new(),
            execution: ExecutionMode::Native,
            interactive: false,
            patience: Duration::ZERO,
        }
    }
}

/// How recovery is executed.
#[derive(Clone, Debug)]
pub enum ExecutionMode {
    /// Like any program.
    Native,
    /// Natively and traced, to find out where recovery is when it fails. Costs some milliseconds.
    Traced,
    /// Under the engine.
    Engine(EngineRun),
}

/// A run under the engine: what to observe, and where the events go.
///
/// The sandbox, its limits and the verdict are those of a native run. A client of a recovered server runs natively.
/// The limit on file sizes also holds for `trace`, and the memory limit includes the memory of the engine.
#[derive(Clone, Debug, Default)]
pub struct EngineRun {
    /// Observe loads too.
    pub loads: bool,
    /// An empty file, to which a trace of the run is written. Without it the events are discarded. If recovery runs out of
    /// time, the trace ends at the last events that were stored.
    pub trace: Option<Arc<File>>,
    /// A file to which the [reads](crate::RecoveryReads) of the run are written in place of a trace. Before, it holds what is asked about
    /// them.
    pub reads: Option<Arc<File>>,
    /// `trace` holds a [`HeldRun`](crate::HeldRun) before, which runs in place of the command.
    pub held: bool,
    /// `trace` holds an [`InputRun`](crate::InputRun) before, which runs in place of the command.
    pub input: bool,
}

/// How well recoveries are isolated from the machine and from each other; greater is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Isolation {
    /// No namespaces: a private directory holds the persistent files, and the command must name them as `{pm}`.
    Directory,
    /// Namespaces; only the directories of the persistent files and `TMPDIR` can be written.
    ReadOnly,
    /// Namespaces; everything that is written goes to a layer that is discarded.
    Layered,
}

/// How the sandbox server is started.
#[derive(Clone, Debug)]
pub struct SandboxServerCommand {
    program: PathBuf,
    arguments: Vec<OsString>,
    /// In place of the environment of this process.
    environment: Option<Vec<(OsString, OsString)>>,
    strongest: Isolation,
}

impl SandboxServerCommand {
    /// `program` must call [`serve`](super::serve), with the arguments that follow these, before it starts any thread.
    pub fn new(program: impl Into<PathBuf>, arguments: &[&str]) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.iter().map(OsString::from).collect(),
            environment: None,
            strongest: Isolation::Layered,
        }
    }

    /// The running executable, with a subcommand.
    pub fn this_executable(subcommand: &str) -> Self {
        // Not by its path: the file may have been replaced since.
        Self::new("/proc/self/exe", &[subcommand])
    }

    /// Lets recoveries have this environment in place of that of this process.
    pub fn with_environment(self, environment: Vec<(OsString, OsString)>) -> Self {
        Self {
            environment: Some(environment),
            ..self
        }
    }

    /// Limits the isolation to this.
    pub fn at_most(self, strongest: Isolation) -> Self {
        Self { strongest, ..self }
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    pub(super) fn arguments(&self) -> &[OsString] {
        &self.arguments
    }

    pub(super) fn environment(&self) -> Option<&[(OsString, OsString)]> {
        self.environment.as_deref()
    }

    pub(super) fn strongest(&self) -> Isolation {
        self.strongest
    }
}
