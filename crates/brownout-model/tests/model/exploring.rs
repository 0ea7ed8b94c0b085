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

/// The bytes that a recovery reads, load by load.
pub type Reads = Vec<(Offset, Vec<u8>)>;

/// What a recovery runs on.
pub trait Machine {
    fn load(&mut self, offset: Offset, len: u64) -> Vec<u8>;
    fn act(&mut self, thread: usize, op: &Op);
    fn reads(&mut self) -> &mut Reads;
}

/// Executes a recovery.
pub fn recover(actions: &[(usize, Action)], machine: &mut impl Machine) {
    let mut sum = 0_u8;
    let mut skip = false;
    for (thread, action) in actions {
        if std::mem::take(&mut skip) {
            continue;
        }
        let load = match action {
            Action::Load(offset, len) => Some((*offset, *len)),
            Action::Follow(offset, len) => Some((offset + u64::from(sum % 2) * 64, *len)),
            Action::Increment(offset) => {
                machine.act(*thread, &Op::Fence);
                Some((*offset, 1))
            }
            _ => None,
        };
        let mut bytes = Vec::new();
        if let Some((offset, len)) = load {
            bytes = machine.load(offset, len);
            machine.reads().push((offset, bytes.clone()));
        }
        sum = bytes.iter().fold(sum, |sum, byte| sum.wrapping_add(*byte));
        match action {
            Action::Load(..) | Action::Follow(..) => {}
            Action::StoreSum(offset) => machine.act(*thread, &Op::Store(*offset, vec![sum])),
            Action::Increment(offset) => {
                let more = vec![bytes[0].wrapping_add(1)];
                machine.act(*thread, &Op::Store(*offset, more));
            }
            Action::Do(op) => machine.act(*thread, op),
            Action::SkipIf(remainder) => skip = sum % 3 == *remainder,
        }
    }
}

/// A recovery that runs on one crash image.
pub struct Native {
    tearing: Tearing,
    follower: Follower,
    content: Memory,
    reads: Reads,
    /// Something was stored since the last narrowing operation.
    stored: bool,
    steps: u64,
    pub moments: Vec<Moment>,
}

/// What a crash at some time of a recovery can leave.
pub struct Moment {
    /// The crash comes before the action with this number, from 1.
    pub before: u64,
    /// What the recovery had read by then.
    pub reads: Reads,
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
    ) -> (Reads, Vec<Moment>) {
        let mut follower = Follower::new(profile, 2);
        follower.base.memory = image.clone();
        let mut native = Native {
            tearing,
            follower,
            content: image.clone(),
            reads: Vec::new(),
            stored: false,
            steps: 0,
            moments: Vec::new(),
        };
        recover(actions, &mut native);
        native.steps += 1;
        let stored = native.stored;
        let end = native.moment(stored);
        native.moments.push(end);
        (native.reads, native.moments)
    }

    fn moment(&self, is_crash_time: bool) -> Moment {
        Moment {
            before: self.steps,
            reads: self.reads.clone(),
            states: self.follower.crash(self.tearing),
            is_crash_time,
        }
    }
}

impl Machine for Native {
    fn load(&mut self, offset: Offset, len: u64) -> Vec<u8> {
        let bytes = offset..offset + len;
        bytes
            .map(|at| self.content.get(&at).copied().unwrap_or(0))
            .collect()
    }

    fn act(&mut self, thread: usize, op: &Op) {
        self.steps += 1;
        let mut moment = self.moment(false);
        let guaranteed = self.follower.base.guaranteed.len();
        self.follower.step(&(thread, op.clone()));
        let narrows = self.follower.base.guaranteed.len() > guaranteed;
        moment.is_crash_time = narrows && self.stored;
        self.stored = is_store(op) || (self.stored && !moment.is_crash_time);
        self.moments.push(moment);
        if let Op::Store(offset, bytes) | Op::NonTemporal(offset, bytes) = op {
            self.content.extend((*offset..).zip(bytes.iter().copied()));
        }
    }

    fn reads(&mut self) -> &mut Reads {
        &mut self.reads
    }
}

/// A recovery whose memory is explored lazily.
struct Explored {
    memory: RecoveryMemory,
    threads: [ThreadSlot; 2],
    reads: Reads,
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

    fn reads(&mut self) -> &mut Reads {
        &mut self.reads
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

/// Explores a recovery after a crash.
pub fn explore(
    history: &Arc<StoreHistory>,
    time: CrashTime,
    depth: usize,
    actions: &[(usize, Action)],
) -> Vec<ExploredRun> {
    let mut exploration = Exploration::new(crashed(history, time), depth);
    let mut runs = Vec::new();
    while let Some(mut memory) = exploration.next_run() {
        let threads = [memory.add_thread(), memory.add_thread()];
        let mut run = Explored {
            memory,
            threads,
            reads: Reads::new(),
        };
        recover(actions, &mut run);
        let possible = run.memory.possible();
        runs.push(ExploredRun {
            crashes: possible.crash_times().map(|time| time.before.0).collect(),
            reads: run.reads,
            image: image(possible),
        });
        exploration.finish(run.memory);
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
