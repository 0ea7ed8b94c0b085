//! Small recoveries, executed on one crash image at a time (eagerly) and by lazy exploration.

use std::collections::BTreeSet;
use std::sync::Arc;

use brownout_model::{
    Access, CrashTime, Exploration, FlushEffect, PmAddress, PossibleMemory, Profile,
    RecoveryMemory, StoreHistory, StoreHistoryBuilder, StoreKind, Tearing, ThreadSlot, Time,
};

use crate::following::{Follower, Memory, SPACE};
use crate::machine::is_store;
use crate::program::{Offset, Op, Step};

pub fn address(offset: Offset) -> PmAddress {
    PmAddress {
        space: SPACE,
        offset,
    }
}

/// What a recovery does. It keeps a sum of all bytes that it has read, on which it decides.
#[derive(Clone, Debug)]
pub enum Action {
    Load(Offset, u64),
    /// A load of one of two neighbouring lines, depending on the sum.
    Follow(Offset, u64),
    /// A store of the sum.
    StoreSum(Offset),
    /// A locked increment of one byte.
    Increment(Offset),
    Do(Op),
    /// Leaves out the next action if the sum has this remainder modulo 3.
    SkipIf(u8),
}

/// The bytes that a recovery reads, load by load. They decide on the address of the next load.
pub type Reads = Vec<Vec<u8>>;

/// What a recovery runs on.
pub trait Machine {
    fn load(&mut self, offset: Offset, len: u64) -> Vec<u8>;
    fn act(&mut self, thread: usize, op: &Op);
}

/// A recovery between two of its actions.
#[derive(Clone, Default)]
pub struct Progress {
    done: usize,
    sum: u8,
    pub reads: Reads,
}

impl Progress {
    /// Executes a recovery.
    pub fn run(actions: &[(usize, Action)], machine: &mut impl Machine) -> Reads {
        let mut progress = Progress::default();
        while let Some(load) = progress.start(actions, machine) {
            let bytes = load.map(|(offset, len)| machine.load(offset, len));
            progress.complete(actions, machine, bytes.as_deref());
        }
        progress.reads
    }

    /// Executes the next action up to its load, which is returned; `None` at the end.
    fn start(
        &mut self,
        actions: &[(usize, Action)],
        machine: &mut impl Machine,
    ) -> Option<Option<(Offset, u64)>> {
        let (thread, action) = actions.get(self.done)?;
        Some(match action {
            Action::Load(offset, len) => Some((*offset, *len)),
            Action::Follow(offset, len) => Some((offset + u64::from(self.sum % 2) * 64, *len)),
            Action::Increment(offset) => {
                machine.act(*thread, &Op::Fence);
                Some((*offset, 1))
            }
            Action::StoreSum(_) | Action::Do(_) | Action::SkipIf(_) => None,
        })
    }

    /// Executes the rest of the action, whose load returned `bytes`.
    fn complete(
        &mut self,
        actions: &[(usize, Action)],
        machine: &mut impl Machine,
        bytes: Option<&[u8]>,
    ) {
        let (thread, action) = &actions[self.done];
        for &byte in bytes.unwrap_or_default() {
            self.sum = self.sum.wrapping_add(byte);
        }
        self.reads.extend(bytes.map(<[u8]>::to_vec));
        self.done += 1;
        match action {
            Action::Load(..) | Action::Follow(..) => {}
            Action::StoreSum(offset) => machine.act(*thread, &Op::Store(*offset, vec![self.sum])),
            Action::Increment(offset) => {
                let more = bytes.expect("it loads")[0].wrapping_add(1);
                machine.act(*thread, &Op::Store(*offset, vec![more]));
            }
            Action::Do(op) => machine.act(*thread, op),
            Action::SkipIf(remainder) => self.done += usize::from(self.sum % 3 == *remainder),
        }
    }
}

/// A recovery that runs on one crash image.
pub struct Native {
    tearing: Tearing,
    follower: Follower,
    content: Memory,
    loads: usize,
    /// Something was stored since the last narrowing operation.
    stored: bool,
    steps: u64,
    pub inner_crashes: Vec<InnerCrash>,
}

/// What a crash at some time of a recovery can leave.
pub struct InnerCrash {
    /// The crash comes before the action with this number, from 1.
    pub before: u64,
    /// How many loads the recovery had executed by then.
    pub loads: usize,
    pub states: BTreeSet<Memory>,
    /// The action narrows the states, and something was stored since the last one that did.
    pub is_crash_time: bool,
}

impl Native {
    pub fn run(
        profile: Profile,
        tearing: Tearing,
        image: &Memory,
        actions: &[(usize, Action)],
    ) -> (Reads, Vec<InnerCrash>) {
        let mut follower = Follower::new(profile, 2);
        follower.base.memory = image.clone();
        let mut native = Native {
            tearing,
            follower,
            content: image.clone(),
            loads: 0,
            stored: false,
            steps: 0,
            inner_crashes: Vec::new(),
        };
        let reads = Progress::run(actions, &mut native);
        native.steps += 1;
        let end = native.inner_crash(native.stored);
        native.inner_crashes.push(end);
        (reads, native.inner_crashes)
    }

    fn inner_crash(&self, is_crash_time: bool) -> InnerCrash {
        InnerCrash {
            before: self.steps,
            loads: self.loads,
            states: self.follower.crash(self.tearing),
            is_crash_time,
        }
    }
}

impl Machine for Native {
    fn load(&mut self, offset: Offset, len: u64) -> Vec<u8> {
        self.loads += 1;
        let bytes = offset..offset + len;
        bytes
            .map(|at| self.content.get(&at).copied().unwrap_or(0))
            .collect()
    }

    fn act(&mut self, thread: usize, op: &Op) {
        self.steps += 1;
        let mut inner_crash = self.inner_crash(false);
        let guaranteed = self.follower.base.guaranteed.len();
        self.follower.step(&(thread, op.clone()));
        let narrows = self.follower.base.guaranteed.len() > guaranteed;
        inner_crash.is_crash_time = narrows && self.stored;
        self.stored = is_store(op) || (self.stored && !inner_crash.is_crash_time);
        self.inner_crashes.push(inner_crash);
        if let Op::Store(offset, bytes) | Op::NonTemporal(offset, bytes) = op {
            self.content.extend((*offset..).zip(bytes.iter().copied()));
        }
    }
}

/// A recovery whose memory is explored lazily.
#[derive(Clone)]
struct Explored {
    memory: RecoveryMemory,
    threads: [ThreadSlot; 2],
}

impl Explored {
    fn new(mut memory: RecoveryMemory) -> Self {
        let threads = [memory.add_thread(), memory.add_thread()];
        Explored { memory, threads }
    }

    fn run(&self, reads: Reads) -> ExploredRun {
        let possible = self.memory.possible();
        ExploredRun {
            crashes: possible.crash_times().map(|time| time.before.0).collect(),
            reads,
            image: image(possible),
        }
    }
}

impl Machine for Explored {
    fn load(&mut self, offset: Offset, len: u64) -> Vec<u8> {
        self.memory.load(address(offset), len)
    }

    fn act(&mut self, thread: usize, op: &Op) {
        let thread = self.threads[thread];
        let memory = &mut self.memory;
        match op {
            Op::Store(offset, bytes) => {
                memory.store(thread, address(*offset), bytes, StoreKind::Cached);
            }
            Op::NonTemporal(offset, bytes) => {
                memory.store(thread, address(*offset), bytes, StoreKind::NonTemporal);
            }
            Op::Clflush(offset) => memory.flush(thread, address(*offset), FlushEffect::Immediate),
            Op::Clwb(offset) => memory.flush(thread, address(*offset), FlushEffect::Deferred),
            Op::Fence => memory.fence(thread),
            Op::Sync(offset) => memory.write_back(thread, SPACE, *offset..offset + 1),
            Op::Locked(..) | Op::Read(..) => unreachable!("no action of a recovery"),
        }
    }
}

/// One explored run of a recovery.
pub struct ExploredRun {
    /// When the runs before it crashed.
    pub crashes: Vec<u64>,
    pub reads: Reads,
    /// A crash image that leads to this run.
    pub image: Memory,
}

/// Explores a recovery after a crash: each run starts at the beginning.
pub fn explore(
    history: &Arc<StoreHistory>,
    time: CrashTime,
    depth: usize,
    actions: &[(usize, Action)],
) -> Vec<ExploredRun> {
    let mut exploration = Exploration::new(crashed(history, time), depth);
    let mut runs = Vec::new();
    while let Some(memory) = exploration.next_run() {
        let mut run = Explored::new(memory);
        let reads = Progress::run(actions, &mut run);
        runs.push(run.run(reads));
        exploration.finish(run.memory);
    }
    runs
}

/// Explores a recovery after a crash: it is copied where a load can see several byte strings.
pub fn explore_by_copies(
    history: &Arc<StoreHistory>,
    time: CrashTime,
    depth: usize,
    actions: &[(usize, Action)],
) -> Vec<ExploredRun> {
    let mut exploration = Exploration::new(crashed(history, time), depth);
    let mut runs = Vec::new();
    while let Some(memory) = exploration.next_run() {
        let mut copies = vec![(Progress::default(), Explored::new(memory))];
        while let Some((mut progress, mut run)) = copies.pop() {
            let Some(load) = progress.start(actions, &mut run) else {
                runs.push(run.run(progress.reads));
                exploration.finish(run.memory);
                continue;
            };
            let Some((offset, len)) = load else {
                progress.complete(actions, &mut run, None);
                copies.push((progress, run));
                continue;
            };
            for class in run.memory.may_read(address(offset), len).iter() {
                let (mut progress, mut run) = (progress.clone(), run.clone());
                run.memory.choose(address(offset), &class);
                progress.complete(actions, &mut run, Some(&class.bytes));
                copies.push((progress, run));
            }
        }
    }
    runs
}

/// What a crash can leave of memory that was zero.
pub fn crashed(history: &Arc<StoreHistory>, time: CrashTime) -> PossibleMemory {
    let zeros = |_: PmAddress, bytes: &mut [u8]| bytes.fill(0);
    PossibleMemory::new(Arc::new(zeros), history.clone(), time)
}

/// One content that is possible.
fn image(possible: &PossibleMemory) -> Memory {
    let units = possible.completed();
    let bytes = units.flat_map(|(unit, bytes)| (unit.offset..).zip(bytes));
    bytes.filter(|(_, byte)| *byte != 0).collect()
}

/// The history of a program. The event at time *n* is its *n*th step.
pub fn history(profile: Profile, tearing: Tearing, steps: &[Step]) -> Arc<StoreHistory> {
    let mut builder = StoreHistoryBuilder::new(profile, tearing);
    let most = steps.iter().map(|(thread, _)| *thread).max().unwrap_or(0);
    let threads: Vec<ThreadSlot> = (0..=most).map(|_| builder.add_thread()).collect();
    for (time, (thread, op)) in (1..).zip(steps) {
        let by = Access {
            thread: threads[*thread],
            time: Time(time),
        };
        match op {
            Op::Store(offset, bytes) => {
                builder.store(by, address(*offset), bytes, StoreKind::Cached);
            }
            Op::NonTemporal(offset, bytes) => {
                builder.store(by, address(*offset), bytes, StoreKind::NonTemporal);
            }
            Op::Locked(offset, bytes) => {
                builder.fence(by);
                builder.store(by, address(*offset), bytes, StoreKind::Cached);
            }
            Op::Clflush(offset) => builder.flush(by, address(*offset), FlushEffect::Immediate),
            Op::Clwb(offset) => builder.flush(by, address(*offset), FlushEffect::Deferred),
            Op::Fence => builder.fence(by),
            Op::Sync(offset) => builder.write_back(by, SPACE, *offset..offset + 1),
            Op::Read(..) => {}
        }
    }
    Arc::new(builder.finish())
}
