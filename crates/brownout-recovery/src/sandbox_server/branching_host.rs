//! Runs a recovery whose processes wait where it may read other bytes, inside the sandbox: what is behind a
//! [`BranchingRecovery`](crate::branching::BranchingRecovery).

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use brownout_engine::explore::{
    BranchEnd, BranchId, ExplorationStep, ExploreError, ExploreOptions, ExploredTarget, OpenFile,
    Question,
};
use brownout_engine::{OtherInput, Repetition};
use brownout_trace::ProcessEnd;

use super::engine_host::{HostError, first_program};
use crate::End;
use crate::branching::messages::{
    self, BranchCommand, BranchOutcome, BranchStep, FreeStep, OpenBytes,
};
use crate::channel::{Channel, ChannelError};

/// More output than this does not fit into a message.
const MOST_OUTPUT: usize = 64 << 10;

/// Serves a caller until it closes the connection.
pub fn serve(
    connection: OwnedFd,
    commands: &[Vec<OsString>],
    persistent_files: &[[PathBuf; 2]],
    repetition: Repetition,
) -> Result<(), HostError> {
    let mut channel = Channel::new(connection);
    let (BranchCommand::Start, descriptors) = channel.receive()? else {
        return Err(ChannelError::Unexpected.into());
    };
    let mut stored = Vec::new();
    for descriptor in descriptors {
        File::from(descriptor).read_to_end(&mut stored)?;
    }
    let open: OpenBytes = postcard::from_bytes(&stored)?;
    // A file that does not exist cannot be read.
    let numbered = persistent_files.iter().zip(&open.files).enumerate();
    let existing = numbered.filter(|(_, ([here, _], _))| here.exists());
    let (numbers, files): (Vec<usize>, Vec<OpenFile>) = existing
        .map(|(number, ([here, _], open))| {
            let open = open.ranges().collect();
            let path = here.clone();
            (number, OpenFile { path, open })
        })
        .unzip();
    let (target, step) = first_program(commands, |command| {
        let options = ExploreOptions {
            command: command.clone(),
            files: files.clone(),
            cpu_limit: open.cpu_limit,
            repetition,
        };
        match ExploredTarget::start(&options) {
            Err(ExploreError::Target(error)) => Err(error),
            started => Ok(started),
        }
    })??;
    let mut host = BranchingHost {
        channel,
        target,
        numbers,
    };
    let first = host.sent_step(step);
    host.channel.send(&first, &[])?;
    match host.serve() {
        Err(HostedError::Channel(ChannelError::Closed)) => Ok(()),
        Err(HostedError::Channel(error)) => Err(error.into()),
        Err(HostedError::Explore(error)) => Err(error.into()),
        Ok(never) => match never {},
    }
}

enum HostedError {
    Channel(ChannelError),
    Explore(ExploreError),
}

impl From<ChannelError> for HostedError {
    fn from(error: ChannelError) -> Self {
        Self::Channel(error)
    }
}

struct BranchingHost {
    channel: Channel,
    target: ExploredTarget,
    /// The numbers of the persistent files that exist.
    numbers: Vec<usize>,
}

impl BranchingHost {
    fn serve(&mut self) -> Result<std::convert::Infallible, HostedError> {
        loop {
            match self.channel.receive()?.0 {
                BranchCommand::Start => return Err(ChannelError::Unexpected.into()),
                BranchCommand::Release { branch } => self.target.release(BranchId(branch)),
                BranchCommand::Answer {
                    branch,
                    bytes,
                    keep,
                } => {
                    let answered = self.target.answer(BranchId(branch), &bytes, keep);
                    let step = self.sent_step(answered.map_err(HostedError::Explore)?);
                    self.channel.send(&step, &[])?;
                }
                BranchCommand::AnswerFreely {
                    branch,
                    bytes,
                    keep,
                    free,
                } => {
                    let branch = BranchId(branch);
                    let answered = self.target.answer_freely(branch, &bytes, keep, free);
                    let (step, free) = answered.map_err(HostedError::Explore)?;
                    let step = FreeStep {
                        free: free.iter().map(|question| self.sent(question)).collect(),
                        step: self.sent_step(step),
                    };
                    self.channel.send(&step, &[])?;
                }
            }
        }
    }

    fn sent_step(&self, step: ExplorationStep) -> BranchStep {
        match step {
            ExplorationStep::Question(question) => BranchStep::Waits {
                branch: question.branch.0,
                question: self.sent(&question),
            },
            ExplorationStep::End(end) => ended(end, &self.target.other_inputs()),
            ExplorationStep::RunAnew(effect) => BranchStep::RunAnew(effect.to_string()),
        }
    }

    fn sent(&self, question: &Question) -> messages::Question {
        let mut open: Vec<std::ops::Range<usize>> = Vec::new();
        for (index, _) in question.open.iter().enumerate().filter(|(_, open)| **open) {
            match open.last_mut().filter(|last| last.end == index) {
                Some(last) => last.end += 1,
                None => open.push(index..index + 1),
            }
        }
        messages::Question {
            file: self.numbers[question.file],
            offset: question.offset,
            len: question.len,
            open,
        }
    }
}

fn ended(end: BranchEnd, other_inputs: &[OtherInput]) -> BranchStep {
    let [stdout, stderr] = [1, 2].map(|stream| end.output_of(stream));
    if stdout.len() + stderr.len() > MOST_OUTPUT {
        return BranchStep::RunAnew("it writes much output".to_owned());
    }
    let end = match end.end {
        _ if end.hung => End::TimedOut,
        ProcessEnd::Signaled { signal } => End::Signaled(signal),
        other => End::Exited(other.shell_status()),
    };
    BranchStep::Ended(BranchOutcome {
        end,
        stdout,
        stderr,
        other_inputs: other_inputs.iter().map(ToString::to_string).collect(),
    })
}
