//! Runs recovery on images that share what recovery reads first, without running the common beginning again.
//!
//! Recovery runs under the engine and waits at each read of bytes that differ between images. The answer is what the image shows. Where
//! other images have other bytes, the process is kept and a copy of it goes on (Jaaru, ASPLOS'21, §4). So a run on another
//! image starts from the last process that has read only what this image shows, too: at the latest, from the first read of such a byte.
//!
//! Recoveries that change what copies of a process share (files, other processes, threads) cannot run in this way;
//! [`BranchingError::RunAnew`] has the reason.

mod branches;
pub(crate) mod messages;
mod waiting_tree;

pub(crate) use branches::Branches;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use brownout_trace::replay::Content;
use rustix::fs::MemfdFlags;

use self::messages::{BranchCommand, BranchOutcome, BranchStep, OpenBytes, Question};
use self::waiting_tree::{NodeNumber, WaitingTree};
use crate::channel::{Channel, ChannelError};
use crate::file_content::write_content;
use crate::{ByteRanges, FirstRead, Sandbox, SandboxError};

/// Follows a recovery and says where runs on other images will be wanted.
pub trait ReadGuide {
    /// Recovery reads these bytes next. Returns whether it will have to read others here, in another run.
    fn read(&mut self, read: FirstRead, bytes: &[u8]) -> bool;
}

/// What all images of a branching recovery have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommonStart {
    /// The length of each persistent file that exists.
    pub lengths: Vec<Option<u64>>,
    pub environment: Vec<(String, String)>,
}

/// Why recovery did not run to its end. Completes the sentence "recovery is run anew because …".
#[derive(Debug, thiserror::Error)]
pub(crate) enum BranchingError {
    /// Copies of it would disturb each other.
    #[error("{0}")]
    RunAnew(String),
    #[error("{0}")]
    Sandbox(#[from] SandboxError),
    #[error("its image cannot be written: {0}")]
    Prepare(#[from] io::Error),
}

/// A run of a branching recovery.
#[derive(Debug)]
pub(crate) struct BranchRun {
    pub outcome: BranchOutcome,
    /// What it has read, in order.
    pub reads: Vec<(FirstRead, Vec<u8>)>,
    /// Whether it was a copy of a process that had waited.
    pub is_copy: bool,
}

/// A recovery whose processes wait where other bytes can be read. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct BranchingRecovery {
    sandbox: Sandbox,
    channel: Channel,
    start: CommonStart,
    tree: WaitingTree,
}

/// A process that has come to a question.
struct Waiting {
    branch: u32,
    question: Question,
}

/// A question of the present run, and its answer.
struct Answered {
    node: NodeNumber,
    bytes: Vec<u8>,
    /// Whether it will have to be answered otherwise.
    is_choice: bool,
}

impl BranchingRecovery {
    /// Starts recovery in a sandbox of its own and lets it run to its first read of a byte that differs between images.
    pub(crate) fn start(
        mut sandbox: Sandbox,
        start: CommonStart,
        image: &[Option<Content>],
        differing: &[ByteRanges],
        cpu_limit: Duration,
    ) -> Result<Self, BranchingError> {
        for (content, file) in image.iter().zip(sandbox.files()?) {
            if let Some(content) = content {
                write_content(content, file)?;
            }
        }
        let lengths = start.lengths.iter().enumerate();
        let absent = lengths.filter(|(_, length)| length.is_none());
        let absent = absent.map(|(number, _)| number).collect();
        let channel = sandbox.start_branching(start.environment.clone(), absent)?;
        let open = OpenBytes {
            files: differing.to_vec(),
            cpu_limit,
        };
        let stored = postcard::to_stdvec(&open).map_err(io::Error::other)?;
        let file = rustix::fs::memfd_create("open-bytes", MemfdFlags::CLOEXEC);
        let file = File::from(file.map_err(io::Error::from)?);
        file.write_all_at(&stored, 0)?;
        let mut recovery = Self {
            sandbox,
            channel,
            start,
            tree: WaitingTree::default(),
        };
        let sent = recovery
            .channel
            .send(&BranchCommand::Start, &[file.as_fd()]);
        recovery.connected(sent)?;
        match recovery.next_step()? {
            Step::Waits(waiting) => recovery.tree.add_root(waiting.question, waiting.branch),
            // A recovery that reads nothing that differs has only one behaviour: it is observed in another way.
            Step::Ended(_) => {
                let reason = "it reads nothing that differs".to_owned();
                return Err(BranchingError::RunAnew(reason));
            }
        }
        Ok(recovery)
    }

    pub(crate) fn common_start(&self) -> &CommonStart {
        &self.start
    }

    /// The sandbox, for another start. Ends all processes.
    pub(crate) fn into_sandbox(self) -> Result<Sandbox, SandboxError> {
        let Self {
            mut sandbox,
            channel,
            ..
        } = self;
        drop(channel);
        sandbox.finish_branching()?;
        Ok(sandbox)
    }

    /// Runs recovery on an image that has the common start.
    pub(crate) fn run(
        &mut self,
        image: &[Option<Content>],
        guide: &mut dyn ReadGuide,
    ) -> Result<BranchRun, BranchingError> {
        let mut answered = self.known_answers(image, guide);
        let nodes = answered.iter().map(|answer| answer.node);
        let Some((mut at, mut branch)) = self.tree.last_waiting(nodes) else {
            // The first process waits as long as the recovery lives.
            return Err(ChannelError::Closed.into());
        };
        let is_copy = self.tree.was_used;
        self.tree.was_used = true;
        let outcome = loop {
            let Answered {
                node,
                ref bytes,
                is_choice,
            } = answered[at];
            let keep = is_choice || self.tree.is_root(node);
            match keep {
                true => self.tree.keep(node, branch),
                false => self.tree.forget(node),
            }
            self.make_room()?;
            let bytes = bytes.clone();
            let waiting = match self.answer(branch, bytes, keep)? {
                Step::Ended(outcome) => break outcome,
                Step::Waits(waiting) => waiting,
            };
            branch = waiting.branch;
            at += 1;
            if let Some(known) = answered.get(at) {
                if *self.tree.question(known.node) != waiting.question {
                    self.release(branch)?;
                    let reason = "it does not always read the same bytes next".to_owned();
                    return Err(BranchingError::RunAnew(reason));
                }
                continue;
            }
            let previous = &answered[at - 1];
            let node = self
                .tree
                .add(previous.node, previous.bytes.clone(), waiting.question);
            let (bytes, is_choice) = answer_to(self.tree.question(node), image, guide);
            answered.push(Answered {
                node,
                bytes,
                is_choice,
            });
        };
        let reads = answered.iter().flat_map(|answer| {
            let question = self.tree.question(answer.node);
            first_reads(question, &answer.bytes).map(|(read, bytes)| (read, bytes.to_vec()))
        });
        Ok(BranchRun {
            outcome,
            reads: reads.collect(),
            is_copy,
        })
    }

    /// The questions that earlier runs have met, as far as they are met on this image, too.
    fn known_answers(
        &mut self,
        image: &[Option<Content>],
        guide: &mut dyn ReadGuide,
    ) -> Vec<Answered> {
        let mut answered = Vec::new();
        let mut next = self.tree.root();
        while let Some(node) = next {
            let (bytes, is_choice) = answer_to(self.tree.question(node), image, guide);
            next = self.tree.after(node, &bytes);
            answered.push(Answered {
                node,
                bytes,
                is_choice,
            });
        }
        answered
    }

    /// Ends a waiting process if there are too many: the one that was not used for the longest time.
    fn make_room(&mut self) -> Result<(), BranchingError> {
        match self.tree.take_surplus() {
            Some(branch) => self.release(branch),
            None => Ok(()),
        }
    }

    fn release(&mut self, branch: u32) -> Result<(), BranchingError> {
        let sent = self.channel.send(&BranchCommand::Release { branch }, &[]);
        self.connected(sent)
    }

    fn answer(&mut self, branch: u32, bytes: Vec<u8>, keep: bool) -> Result<Step, BranchingError> {
        let answer = BranchCommand::Answer {
            branch,
            bytes,
            keep,
        };
        let sent = self.channel.send(&answer, &[]);
        self.connected(sent)?;
        self.next_step()
    }

    fn next_step(&mut self) -> Result<Step, BranchingError> {
        let received = self.channel.receive();
        match self.connected(received)?.0 {
            BranchStep::Waits { branch, question } => Ok(Step::Waits(Waiting { branch, question })),
            BranchStep::Ended(outcome) => Ok(Step::Ended(outcome)),
            BranchStep::RunAnew(reason) => Err(BranchingError::RunAnew(reason)),
        }
    }

    /// If the host has ended, the sandbox knows why.
    fn connected<T>(&mut self, result: Result<T, ChannelError>) -> Result<T, BranchingError> {
        match result {
            Err(ChannelError::Closed) => {
                self.sandbox.finish_branching()?;
                Err(ChannelError::Closed.into())
            }
            result => Ok(result?),
        }
    }
}

enum Step {
    Waits(Waiting),
    Ended(BranchOutcome),
}

impl From<ChannelError> for BranchingError {
    fn from(error: ChannelError) -> Self {
        Self::Sandbox(error.into())
    }
}

/// What an image answers, and whether other images will answer otherwise.
fn answer_to(
    question: &Question,
    image: &[Option<Content>],
    guide: &mut dyn ReadGuide,
) -> (Vec<u8>, bool) {
    let mut bytes = vec![0; question.len];
    if let Some(Some(content)) = image.get(question.file) {
        content.read(question.offset, &mut bytes);
    }
    let mut is_choice = false;
    for (read, bytes) in first_reads(question, &bytes) {
        is_choice |= guide.read(read, bytes);
    }
    (bytes, is_choice)
}

/// The open bytes of a question, by parts.
fn first_reads<'b>(
    question: &Question,
    bytes: &'b [u8],
) -> impl Iterator<Item = (FirstRead, &'b [u8])> {
    question.open.iter().map(move |part| {
        let read = FirstRead {
            file: question.file,
            offset: question.offset + part.start as u64,
            len: part.len() as u64,
        };
        (read, &bytes[part.clone()])
    })
}
