//! A target that is executed again and again in a sandbox: [`brownout_engine::fuzz`], with everything that executions write kept private.
//!
//! The engine runs in a host inside the sandbox (`sandbox_server/fuzz_host`), where the persistent files are private; what executions write
//! to other files goes to a layer that is discarded. After an execution that has written other files, the sandbox is renewed before the
//! next one, so that no execution sees what another has done.
//!
//! What it can miss: processes that an execution leaves behind run until the sandbox is renewed.

pub(crate) mod messages;

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

use brownout_engine::fuzz::{Comparison, CopyEnd, FuzzTarget, PmOperation, Transition};
use brownout_trace::replay::{Content, PAGE};
use rustix::fs::MemfdFlags;
use serde::de::DeserializeOwned;

use crate::channel::{Channel, ChannelError};
use crate::file_content::write_content;
use crate::{Isolation, Recovery, Sandbox, SandboxError, SandboxServerCommand};
use messages::{
    FuzzCommand, FuzzReply, SentExecution, SentFile, SentOperation, SentState, SentTarget,
};

/// Why an execution was impossible.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FuzzSandboxError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("cannot exchange data with the sandbox")]
    Exchange(#[source] io::Error),
    #[error("the program cannot be fuzzed: {0}")]
    Target(String),
    #[error("an image has {given} files, but there are {expected} persistent files")]
    Image { given: usize, expected: usize },
}

/// What an execution has shown. See [`brownout_engine::fuzz::FuzzExecution`], which has the same fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FuzzOutcome {
    pub end: CopyEnd,
    pub duration: Duration,
    pub transitions: Vec<(Transition, u32)>,
    pub lost_transitions: u32,
    /// The edges that were taken, by their index in the map, with their counts up to 255.
    pub edges: Vec<(u32, u8)>,
    pub comparisons: Vec<Comparison>,
    pub may_have_changed_files: bool,
    /// The sandbox is renewed before the next execution.
    pub wrote_files: bool,
    pub started_processes: bool,
    pub used_input: bool,
}

/// A target in a sandbox of its own.
pub struct FuzzSandbox {
    sandbox: Sandbox,
    target: FuzzTarget,
    /// The connection to the host and the file that both have, while there is a host.
    host: Option<(Channel, File)>,
    image: Vec<Option<Content>>,
    state: SentState,
    renewals: u64,
    /// Whether the next execution would see what another has written.
    is_stale: bool,
    /// Whether other files were written when the target used the image, which it must not see when it uses another one.
    has_written_at_start: bool,
}

impl FuzzSandbox {
    /// Starts a target in a sandbox. `recovery` says how the sandbox is to be; its command is not run. The persistent files of the target
    /// need not exist; executions start on `image`.
    pub fn start(
        server: &SandboxServerCommand,
        recovery: &Recovery,
        target: &FuzzTarget,
        image: &[Option<Content>],
    ) -> Result<Self, FuzzSandboxError> {
        let sandbox = Sandbox::start(server, recovery, &target.files)?;
        let mut fuzzed = Self {
            sandbox,
            target: target.clone(),
            host: None,
            image: Vec::new(),
            state: SentState::default(),
            renewals: 0,
            is_stale: false,
            has_written_at_start: false,
        };
        fuzzed.set_current_image(image)?;
        fuzzed.start_host()?;
        fuzzed.send_image()?;
        Ok(fuzzed)
    }

    pub fn isolation(&self) -> Isolation {
        self.sandbox.isolation()
    }

    /// Where the target is copied for each execution, in words.
    pub fn fork_point(&self) -> &str {
        &self.state.fork_point
    }

    /// Whether it is copied at the first use of its input.
    pub fn is_copied_at_input(&self) -> bool {
        self.state.is_copied
    }

    /// What can make executions of the same input differ, one phrase each.
    pub fn unpinned(&self) -> &[String] {
        &self.state.unpinned
    }

    /// How often the sandbox was renewed because an execution had written other files.
    pub fn renewals(&self) -> u64 {
        self.renewals
    }

    /// Lets the following executions start on an image. If the target uses its persistent files before its input, what this shows is
    /// returned.
    pub fn set_image(
        &mut self,
        image: &[Option<Content>],
    ) -> Result<Option<FuzzOutcome>, FuzzSandboxError> {
        self.set_current_image(image)?;
        self.is_stale |= self.has_written_at_start;
        self.renew_if_stale()?;
        self.send_image()
    }

    /// Runs the target on an input.
    pub fn execute(&mut self, input: &[u8]) -> Result<FuzzOutcome, FuzzSandboxError> {
        if self.renew_if_stale()? {
            self.send_image()?;
        }
        let (_, common) = self.host()?;
        common
            .write_all_at(input, 0)
            .map_err(FuzzSandboxError::Exchange)?;
        let len = input.len() as u64;
        let executed: SentExecution = self.ask(&FuzzCommand::Execute { len }, &[])?;
        self.took(executed)?
            .ok_or_else(|| FuzzSandboxError::Target("there was no execution".to_owned()))
    }

    /// The persistent files as the last execution has left them; `None` if one does not exist.
    pub fn files(&mut self) -> Result<Vec<Option<Content>>, FuzzSandboxError> {
        let sent: Vec<Option<SentFile>> = self.ask(&FuzzCommand::Files, &[])?;
        let pairs = sent.into_iter().zip(&self.image);
        Ok(pairs
            .map(|(file, image)| {
                let file = file?;
                let mut content = image.clone().unwrap_or_default();
                content.resize(file.len);
                for (number, bytes) in file.pages {
                    content.write(number * PAGE as u64, &bytes);
                }
                Some(content)
            })
            .collect())
    }

    /// The operation with this identity, if an execution has made it.
    pub fn operation(&mut self, identity: u64) -> Result<Option<PmOperation>, FuzzSandboxError> {
        let sent: Option<SentOperation> = self.ask(&FuzzCommand::Operation { identity }, &[])?;
        Ok(sent.map(SentOperation::operation))
    }

    fn set_current_image(&mut self, image: &[Option<Content>]) -> Result<(), FuzzSandboxError> {
        let expected = self.target.files.len();
        if image.len() != expected {
            return Err(FuzzSandboxError::Image {
                given: image.len(),
                expected,
            });
        }
        self.image = image.to_vec();
        Ok(())
    }

    /// Starts the target. It does not use its persistent files before the image is sent.
    fn start_host(&mut self) -> Result<(), FuzzSandboxError> {
        let channel = self.sandbox.start_fuzzing()?;
        let common = common_file().map_err(FuzzSandboxError::Exchange)?;
        self.host = Some((channel, common));
        // The target starts on files that are there, or not, as in the image.
        self.prepare_files()?;
        let target = SentTarget::of(&self.target);
        let (_, common) = self.host()?;
        let common = common.try_clone().map_err(FuzzSandboxError::Exchange)?;
        self.state = self.ask(&FuzzCommand::Start(target), &[common])?;
        Ok(())
    }

    /// Writes the image to the files of the sandbox.
    fn prepare_files(&mut self) -> Result<(), FuzzSandboxError> {
        for (content, file) in self.image.iter().zip(self.sandbox.files()?) {
            let empty = Content::default();
            write_content(content.as_ref().unwrap_or(&empty), file)
                .map_err(FuzzSandboxError::Exchange)?;
        }
        Ok(())
    }

    fn send_image(&mut self) -> Result<Option<FuzzOutcome>, FuzzSandboxError> {
        let exists = self.image.iter().map(Option::is_some).collect();
        let files = self.image.iter().flatten().map(|content| {
            let file = common_file()?;
            write_content(content, &file)?;
            Ok(file)
        });
        let files: Vec<File> = files
            .collect::<io::Result<_>>()
            .map_err(FuzzSandboxError::Exchange)?;
        let executed = self.ask(&FuzzCommand::SetImage { exists }, &files)?;
        self.took(executed)
    }

    fn took(&mut self, sent: SentExecution) -> Result<Option<FuzzOutcome>, FuzzSandboxError> {
        self.state = sent.state;
        let outcome = sent.outcome.map(messages::SentOutcome::outcome);
        if let Some(outcome) = outcome.as_ref().filter(|outcome| outcome.wrote_files) {
            match outcome.end {
                // Executions on this image all see it.
                CopyEnd::AtInput => self.has_written_at_start = true,
                _ => self.is_stale = true,
            }
        }
        Ok(outcome)
    }

    /// Discards what executions have written, by starting anew. Returns whether it has; the image has to be sent then.
    fn renew_if_stale(&mut self) -> Result<bool, FuzzSandboxError> {
        let is_stale = self.is_stale;
        if is_stale {
            self.is_stale = false;
            self.has_written_at_start = false;
            self.renewals += 1;
            self.host = None;
            self.sandbox.finish_branching()?;
            self.start_host()?;
        }
        Ok(is_stale)
    }

    fn host(&mut self) -> Result<&mut (Channel, File), FuzzSandboxError> {
        let gone = FuzzSandboxError::Sandbox(SandboxError::SandboxServerGone);
        self.host.as_mut().ok_or(gone)
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        command: &FuzzCommand,
        files: &[File],
    ) -> Result<T, FuzzSandboxError> {
        let (channel, common) = self.host()?;
        let descriptors: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
        let exchanged = channel
            .send(command, &descriptors)
            .and_then(|()| channel.receive::<FuzzReply>());
        let len = match exchanged {
            Ok((FuzzReply::Done { len }, _)) => len,
            Ok((FuzzReply::Failed(reason), _)) => return Err(FuzzSandboxError::Target(reason)),
            Err(ChannelError::Closed) => {
                self.host = None;
                self.sandbox.finish_branching()?;
                return Err(SandboxError::SandboxServerGone.into());
            }
            Err(error) => return Err(SandboxError::from(error).into()),
        };
        let mut bytes = vec![0; len as usize];
        common
            .read_exact_at(&mut bytes, 0)
            .map_err(FuzzSandboxError::Exchange)?;
        postcard::from_bytes(&bytes)
            .map_err(|error| FuzzSandboxError::Exchange(io::Error::other(error)))
    }
}

/// A file in memory.
fn common_file() -> io::Result<File> {
    Ok(rustix::fs::memfd_create("brownout-fuzz", MemfdFlags::CLOEXEC)?.into())
}

/// The persistent files of a target, for the host: where each is.
pub(crate) fn paths(persistent_files: &[[PathBuf; 2]]) -> Vec<PathBuf> {
    let paths = persistent_files.iter();
    paths.map(|[here, _]| here.clone()).collect()
}
