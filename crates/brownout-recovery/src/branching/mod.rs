//! Runs recovery on images that share what recovery reads first, without running the common beginning again.
//!
//! Recovery runs under the engine and waits at each read of bytes that differ between images. The answer is what the image shows. Where
//! other images have other bytes, the process is kept and a copy of it goes on (Jaaru, ASPLOS'21, §4). So a run on another
//! image starts from the last process that has read only what this image shows, too: at the latest, from the first read of such a byte.
//!
//! What runs have read, and how they ended, is kept in a [tree](question_tree). An image whose bytes lead to a known end needs no run.
//! A strategy that explores says at which reads processes are to be kept ([`ReadGuide`]); for images that come one by one, [`free_run`]
//! decides. The latter can share what they learn ([`SharedStarts`]).
//!
//! Recoveries that change what copies of a process share (files, other processes, threads) cannot run in this way;
//! [`BranchingError::RunAnew`] has the reason.

mod branches;
mod free_run;
mod host;
pub(crate) mod messages;
mod question_tree;
mod shared_starts;
mod underway;
mod waiting_processes;

pub(crate) use branches::{Branches, RunAnew};
pub(crate) use host::{BranchingHost, CPU_LIMIT, EVENT, StartInput, common_start};
pub(crate) use messages::BranchOutcome;
pub use shared_starts::{SharedStartCounts, SharedStarts};
pub use underway::PlannedRun;
pub(crate) use underway::RunUnderway;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use brownout_trace::replay::Content;
use rustix::fs::MemfdFlags;
use serde::de::DeserializeOwned;

use self::messages::{BranchCommand, BranchStep, OpenBytes, Question};
use self::question_tree::{Contradiction, NodeNumber, QuestionTree, ROOT};
use self::waiting_processes::WaitingProcesses;
use crate::channel::{Channel, ChannelError};
use crate::file_content::write_content;
use crate::{ByteRanges, FirstRead, Sandbox, SandboxError};

/// Follows a recovery and says where runs on other images will be wanted.
pub trait ReadGuide {
    /// Recovery reads these bytes next. Returns whether it will have to read others here, in another run.
    fn read(&mut self, read: FirstRead, bytes: &[u8]) -> bool;
}

/// What all images of a branching recovery have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// It depends on something else than what it reads.
    #[error("it does not always read the same bytes next")]
    Contradiction,
    #[error("{0}")]
    Sandbox(#[from] SandboxError),
    #[error("its image cannot be written: {0}")]
    Prepare(#[from] io::Error),
}

impl BranchingError {
    /// Whether the processes that wait can be used further. Whatever else has happened to their host, recovery can be run without it.
    pub(crate) fn leaves_processes(&self) -> bool {
        matches!(self, Self::RunAnew(_) | Self::Contradiction)
    }
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

/// What recovery does as far as its runs have shown it. Several branching recoveries can share it.
pub(crate) type SharedTree = Arc<Mutex<QuestionTree>>;

/// Notes how a recovery ends that reads nothing that differs.
pub(crate) fn learn_end(
    tree: &SharedTree,
    outcome: BranchOutcome,
) -> Result<Arc<BranchOutcome>, BranchingError> {
    let mut tree = lock(tree);
    if outcome.end != crate::End::TimedOut {
        tree.begin_with_end(outcome.clone())?;
    }
    Ok(Arc::new(outcome))
}

/// A recovery whose processes wait where other bytes can be read. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct BranchingRecovery {
    sandbox: Sandbox,
    channel: Channel,
    start: CommonStart,
    /// What the persistent files hold.
    written: Vec<Option<Content>>,
    tree: SharedTree,
    waiting: WaitingProcesses,
    /// Whether a run has answered the first question.
    was_used: bool,
}

/// How a branching recovery begins.
pub(crate) enum Started {
    Waits(Box<BranchingRecovery>),
    /// It reads nothing that differs, and so has only one behaviour.
    Ended(BranchOutcome),
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
        tree: SharedTree,
    ) -> Result<Started, BranchingError> {
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
            written: image.to_vec(),
            tree,
            waiting: WaitingProcesses::default(),
            was_used: false,
        };
        let sent = recovery
            .channel
            .send(&BranchCommand::Start, &[file.as_fd()]);
        recovery.connected(sent)?;
        let step = recovery.received()?;
        let waiting = match taken(step)? {
            BranchProgress::Waits(waiting) => waiting,
            BranchProgress::Ended(outcome) => return Ok(Started::Ended(outcome)),
        };
        recovery.tree().begin(waiting.question)?;
        recovery.waiting.keep(ROOT, waiting.branch);
        Ok(Started::Waits(Box::new(recovery)))
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

    fn tree(&self) -> MutexGuard<'_, QuestionTree> {
        lock(&self.tree)
    }

    /// Runs recovery on an image that has the common start.
    pub(crate) fn run(
        &mut self,
        image: &[Option<Content>],
        guide: &mut dyn ReadGuide,
    ) -> Result<BranchRun, BranchingError> {
        let mut answered = self.known_answers(image, guide);
        let nodes = answered.iter().map(|answer| answer.node);
        let Some((mut at, mut branch)) = self.waiting.last(nodes) else {
            // The first process waits as long as the recovery lives.
            return Err(ChannelError::Closed.into());
        };
        let is_copy = std::mem::replace(&mut self.was_used, true);
        let outcome = loop {
            let Answered {
                node,
                ref bytes,
                is_choice,
            } = answered[at];
            let keep = is_choice || node == ROOT;
            match keep {
                true => self.waiting.keep(node, branch),
                false => self.waiting.forget(node),
            }
            self.make_room()?;
            let bytes = bytes.clone();
            let waiting = match self.answer(branch, bytes, keep)? {
                BranchProgress::Ended(outcome) => break outcome,
                BranchProgress::Waits(waiting) => waiting,
            };
            branch = waiting.branch;
            at += 1;
            let previous = &answered[at - 1];
            let asked = self
                .tree()
                .ask(previous.node, &previous.bytes, waiting.question);
            let node = match asked {
                Ok(Some(node)) => node,
                Ok(None) | Err(Contradiction) => {
                    self.release(branch)?;
                    return Err(Contradiction.into());
                }
            };
            if at < answered.len() {
                continue;
            }
            let (bytes, is_choice) = answer_to(self.tree().question(node), image, guide);
            answered.push(Answered {
                node,
                bytes,
                is_choice,
            });
        };
        let tree = self.tree();
        let reads = answered.iter().flat_map(|answer| {
            let question = tree.question(answer.node);
            first_reads(question, &answer.bytes).map(|(read, bytes)| (read, bytes.to_vec()))
        });
        let reads = reads.collect();
        drop(tree);
        Ok(BranchRun {
            outcome,
            reads,
            is_copy,
        })
    }

    /// The questions that earlier runs have met, as far as they are met on this image, too.
    fn known_answers(
        &mut self,
        image: &[Option<Content>],
        guide: &mut dyn ReadGuide,
    ) -> Vec<Answered> {
        let mut choices = Vec::new();
        let (path, _) = self.tree().follow(|question| {
            let (bytes, is_choice) = answer_to(question, image, guide);
            choices.push(is_choice);
            bytes
        });
        let path = path.into_iter().zip(choices);
        path.map(|((node, bytes), is_choice)| Answered {
            node,
            bytes,
            is_choice,
        })
        .collect()
    }

    /// There are so many branching recoveries: each may keep its part of the processes that may wait.
    pub(crate) fn share_room(&mut self, recoveries: usize) {
        self.waiting.share_room(recoveries);
    }

    /// Ends waiting processes if there are too many: those that were not used for the longest time.
    fn make_room(&mut self) -> Result<(), BranchingError> {
        while let Some(branch) = self.waiting.take_surplus() {
            self.release(branch)?;
        }
        Ok(())
    }

    fn release(&mut self, branch: u32) -> Result<(), BranchingError> {
        let sent = self.channel.send(&BranchCommand::Release { branch }, &[]);
        self.connected(sent)
    }

    fn answer(
        &mut self,
        branch: u32,
        bytes: Vec<u8>,
        keep: bool,
    ) -> Result<BranchProgress, BranchingError> {
        let answer = BranchCommand::Answer {
            branch,
            bytes,
            keep,
        };
        let sent = self.channel.send(&answer, &[]);
        self.connected(sent)?;
        taken(self.received()?)
    }

    fn received<T: DeserializeOwned>(&mut self) -> Result<T, BranchingError> {
        let received = self.channel.receive();
        Ok(self.connected(received)?.0)
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

enum BranchProgress {
    Waits(Waiting),
    Ended(BranchOutcome),
}

fn taken(step: BranchStep) -> Result<BranchProgress, BranchingError> {
    match step {
        BranchStep::Waits { branch, question } => {
            Ok(BranchProgress::Waits(Waiting { branch, question }))
        }
        BranchStep::Ended(outcome) => Ok(BranchProgress::Ended(outcome)),
        BranchStep::RunAnew(reason) => Err(BranchingError::RunAnew(reason)),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl From<Contradiction> for BranchingError {
    fn from(_: Contradiction) -> Self {
        Self::Contradiction
    }
}

impl From<ChannelError> for BranchingError {
    fn from(error: ChannelError) -> Self {
        Self::Sandbox(error.into())
    }
}

/// What an image answers. Bytes that are not open are zero: recovery has stored them itself, or they are the same in all images.
fn image_bytes(question: &Question, image: &[Option<Content>]) -> Vec<u8> {
    let mut bytes = vec![0; question.len];
    if let Some(Some(content)) = image.get(question.file) {
        for part in &question.open {
            let at = question.offset + part.start as u64;
            content.read(at, &mut bytes[part.clone()]);
        }
    }
    bytes
}

/// What an image answers, and whether other images will answer otherwise.
fn answer_to(
    question: &Question,
    image: &[Option<Content>],
    guide: &mut dyn ReadGuide,
) -> (Vec<u8>, bool) {
    let bytes = image_bytes(question, image);
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
