//! Executes a target again and again, inside the sandbox: what is behind a [`FuzzSandbox`](crate::FuzzSandbox).

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use brownout_engine::Repetition;
use brownout_engine::fuzz::{ForkPoint, FuzzServer, FuzzServerError};
use brownout_trace::replay::{Content, PAGE};
use rustix::fs::SeekFrom;
use serde::Serialize;

use super::engine_host::HostError;
use crate::channel::{Channel, ChannelError};
use crate::fuzzing::messages::{
    FuzzCommand, FuzzReply, SentExecution, SentFile, SentOperation, SentOutcome, SentState,
};
use crate::fuzzing::paths;

/// Serves a caller until it closes the connection.
pub fn serve(
    connection: OwnedFd,
    persistent_files: &[[PathBuf; 2]],
    repetition: Repetition,
) -> Result<(), HostError> {
    let mut channel = Channel::new(connection);
    let (FuzzCommand::Start(sent), descriptors) = channel.receive()? else {
        return Err(ChannelError::Unexpected.into());
    };
    let common = descriptors.into_iter().next();
    let common = File::from(common.ok_or(ChannelError::Unexpected)?);
    let target = sent.target(paths(persistent_files), repetition);
    let target = target.ok_or(ChannelError::Unexpected)?;
    let server = match FuzzServer::start_without_image(&target) {
        Ok(server) => server,
        Err(error) => {
            channel.send(&FuzzReply::Failed(HostError::from(error).to_string()), &[])?;
            return Ok(());
        }
    };
    let mut host = FuzzHost {
        server,
        common,
        image: Vec::new(),
    };
    let started = host.put(&host.state())?;
    channel.send(&started, &[])?;
    loop {
        let (command, descriptors) = match channel.receive() {
            Err(ChannelError::Closed) => return Ok(()),
            received => received?,
        };
        let reply = match host.obey(command, descriptors) {
            Ok(reply) => reply,
            Err(error) => FuzzReply::Failed(error.to_string()),
        };
        channel.send(&reply, &[])?;
    }
}

struct FuzzHost {
    server: FuzzServer,
    /// The file that the caller has, too.
    common: File,
    image: Vec<Option<Content>>,
}

impl FuzzHost {
    fn obey(
        &mut self,
        command: FuzzCommand,
        descriptors: Vec<OwnedFd>,
    ) -> Result<FuzzReply, HostError> {
        match command {
            FuzzCommand::Start(_) => Err(ChannelError::Unexpected.into()),
            FuzzCommand::SetImage { exists } => {
                let mut files = descriptors.into_iter();
                let image = exists.into_iter().map(|exists| match exists {
                    false => Ok(None),
                    true => {
                        let file = files.next().ok_or(io::ErrorKind::UnexpectedEof)?;
                        read_content(&mut File::from(file)).map(Some)
                    }
                });
                self.image = image.collect::<io::Result<_>>()?;
                let execution = self.server.set_image(&self.image)?;
                let outcome = execution.as_ref().map(SentOutcome::of);
                self.executed(outcome)
            }
            FuzzCommand::Execute { len } => {
                let mut input = vec![0; len as usize];
                self.common.read_exact_at(&mut input, 0)?;
                let outcome = SentOutcome::of(&self.server.execute(&input)?);
                self.executed(Some(outcome))
            }
            FuzzCommand::Files => {
                let files = self.files()?;
                self.put(&files)
            }
            FuzzCommand::Operation { identity } => {
                let operation = self.server.operation(identity);
                self.put(&operation.as_ref().map(SentOperation::of))
            }
        }
    }

    fn executed(&self, outcome: Option<SentOutcome>) -> Result<FuzzReply, HostError> {
        let state = self.state();
        self.put(&SentExecution { outcome, state })
    }

    fn state(&self) -> SentState {
        let unpinned = self.server.unpinned();
        SentState {
            fork_point: self.server.fork_point().to_string(),
            is_copied: self.server.fork_point() == ForkPoint::Input,
            unpinned: unpinned.iter().map(ToString::to_string).collect(),
        }
    }

    /// What the files hold now, by their difference from the image.
    fn files(&self) -> Result<Vec<Option<SentFile>>, FuzzServerError> {
        let now = self.server.files()?;
        let pairs = now.into_iter().zip(&self.image);
        Ok(pairs
            .map(|(now, image)| {
                let now = now?;
                let empty = Content::default();
                let image = image.as_ref().unwrap_or(&empty);
                let differing = now.pages_unlike(image).into_iter();
                let pages = differing.map(|number| {
                    let at = number * PAGE as u64;
                    let len = now.len().saturating_sub(at).min(PAGE as u64);
                    let mut bytes = vec![0; len as usize];
                    now.read(at, &mut bytes);
                    (number, bytes)
                });
                Some(SentFile {
                    len: now.len(),
                    pages: pages.collect(),
                })
            })
            .collect())
    }

    /// Puts an answer into the common file.
    fn put(&self, answer: &impl Serialize) -> Result<FuzzReply, HostError> {
        let bytes = postcard::to_stdvec(answer)?;
        self.common.write_all_at(&bytes, 0)?;
        let len = bytes.len() as u64;
        Ok(FuzzReply::Done { len })
    }
}

/// Reads a file, without its holes.
fn read_content(file: &mut File) -> io::Result<Content> {
    let mut content = Content::default();
    let len = file.metadata()?.len();
    content.resize(len);
    let mut bytes = Vec::new();
    let mut at = 0;
    while let Ok(start) = rustix::fs::seek(&*file, SeekFrom::Data(at)) {
        let end = rustix::fs::seek(&*file, SeekFrom::Hole(start)).unwrap_or(len);
        file.seek(io::SeekFrom::Start(start))?;
        bytes.clear();
        file.by_ref().take(end - start).read_to_end(&mut bytes)?;
        content.write(start, &bytes);
        at = end;
        if at >= len {
            break;
        }
    }
    Ok(content)
}
