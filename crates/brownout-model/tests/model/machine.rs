//! A reference machine with persistent memory that explores all permitted behaviours.
//!
//! It is written from the description of the hardware, independently of the tracker. Cached stores wait in one queue per
//! unit; the front of a queue can move to the persistent medium at any time (eviction). A write-back instruction
//! records which entries must have left the queue at the next fence of its thread. Non-temporal stores wait in buffers
//! of their thread, which drain in any order, at the latest at its next fence. No byte ever returns to an older store.
//! All reachable states are kept, so only tiny programs can be run.

use std::collections::{BTreeMap, BTreeSet};

use brownout_model::{LINE, PAGE, Profile, Tearing};

use crate::following::Memory;
use crate::program::{Offset, Op, Step};

/// Position in the program.
type Stamp = usize;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Write {
    stamp: Stamp,
    bytes: Vec<(Offset, u8)>,
}

/// One state of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    medium: BTreeMap<Offset, (Stamp, u8)>,
    /// By the start of their unit.
    queues: BTreeMap<Offset, Vec<Write>>,
    /// By thread.
    buffers: BTreeMap<usize, Vec<Write>>,
    /// By thread: a line, and the stamp of the last store to it that must leave its queue.
    write_backs: BTreeMap<usize, Vec<(Offset, Stamp)>>,
}

/// The properties of a kind of machine.
#[derive(Clone, Copy)]
struct Hardware {
    /// Bytes that become persistent together.
    unit: Offset,
    caches_survive: bool,
    /// A disk behind the page cache: flush and fence instructions have no effect.
    disk: bool,
    words: bool,
}

/// Runs a program. Returns the possible contents of the medium before the first and after each step.
pub fn run(profile: Profile, tearing: Tearing, steps: &[Step]) -> Vec<BTreeSet<Memory>> {
    let mut found = Vec::new();
    explore(profile, tearing, steps, |states| {
        found.push(states.iter().map(State::content).collect());
    });
    found
}

/// The pairs of stores of which the second can be on the medium before the first.
pub fn open_pairs(profile: Profile, steps: &[Step]) -> BTreeSet<(Stamp, Stamp)> {
    let mut open = BTreeSet::new();
    let mut issued = BTreeSet::new();
    let mut states = 0;
    explore(profile, Tearing::Whole, steps, |reached| {
        if states > 0 && is_store(&steps[states - 1].1) {
            issued.insert(states - 1);
        }
        states += 1;
        for state in reached {
            let waiting = state.waiting();
            for &second in issued.difference(&waiting) {
                let all = (0..steps.len()).filter(|&first| is_store(&steps[first].1));
                for first in all.filter(|first| waiting.contains(first) || !issued.contains(first))
                {
                    open.insert((first, second));
                }
            }
        }
    });
    open
}

pub fn is_store(op: &Op) -> bool {
    matches!(op, Op::Store(..) | Op::NonTemporal(..) | Op::Locked(..))
}

fn explore(
    profile: Profile,
    tearing: Tearing,
    steps: &[Step],
    mut visit: impl FnMut(&BTreeSet<State>),
) {
    let hardware = Hardware {
        unit: if profile == Profile::MSYNC { 512 } else { LINE },
        caches_survive: profile == Profile::EADR || profile == Profile::GPF,
        disk: profile == Profile::MSYNC,
        words: tearing == Tearing::Words,
    };
    let mut states = BTreeSet::from([State::default()]);
    visit(&states);
    for (stamp, (thread, op)) in steps.iter().enumerate() {
        let stepped = states.into_iter().map(|mut state| {
            state.execute(hardware, *thread, stamp, op);
            state
        });
        states = with_internal_steps(hardware, stepped.collect());
        visit(&states);
    }
}

/// Adds all states that the machine can reach by itself, without a step of the program.
fn with_internal_steps(hardware: Hardware, states: BTreeSet<State>) -> BTreeSet<State> {
    let mut reached = states.clone();
    let mut fresh: Vec<State> = states.into_iter().collect();
    while let Some(state) = fresh.pop() {
        for next in state.internal_steps(hardware) {
            if reached.insert(next.clone()) {
                fresh.push(next);
            }
        }
    }
    reached
}

impl State {
    fn content(&self) -> Memory {
        let bytes = self
            .medium
            .iter()
            .map(|(&offset, &(_, value))| (offset, value));
        bytes.filter(|(_, value)| *value != 0).collect()
    }

    /// Stores that have not completely reached the medium.
    fn waiting(&self) -> BTreeSet<Stamp> {
        let lists = self.queues.values().chain(self.buffers.values());
        lists.flatten().map(|write| write.stamp).collect()
    }

    fn execute(&mut self, hardware: Hardware, thread: usize, stamp: Stamp, op: &Op) {
        match op {
            Op::Store(offset, bytes) => self.cached(hardware, stamp, *offset, bytes),
            Op::NonTemporal(offset, bytes) if hardware.disk => {
                self.cached(hardware, stamp, *offset, bytes);
            }
            Op::NonTemporal(offset, bytes) => {
                let pieces = pieces(hardware, stamp, *offset, bytes).into_values();
                self.buffers.entry(thread).or_default().extend(pieces);
            }
            Op::Locked(offset, bytes) => {
                self.fence(hardware, thread);
                self.cached(hardware, stamp, *offset, bytes);
            }
            Op::Fence => self.fence(hardware, thread),
            Op::Clflush(offset) if !hardware.disk => {
                self.empty(hardware, offset - offset % LINE, stamp);
            }
            Op::Clwb(offset) if !hardware.disk => {
                let line = offset - offset % LINE;
                self.write_backs
                    .entry(thread)
                    .or_default()
                    .push((line, stamp));
            }
            Op::Sync(offset) => {
                let page = offset - offset % PAGE;
                for line in (page..page + PAGE).step_by(LINE as usize) {
                    self.empty(hardware, line, stamp);
                    for buffer in self.buffers.clone().into_values().flatten() {
                        if buffer.bytes[0].0 - buffer.bytes[0].0 % LINE == line {
                            self.drain(&buffer);
                        }
                    }
                }
            }
            Op::Clflush(_) | Op::Clwb(_) | Op::Read(..) => {}
        }
    }

    fn cached(&mut self, hardware: Hardware, stamp: Stamp, offset: Offset, bytes: &[u8]) {
        for (unit, write) in pieces(hardware, stamp, offset, bytes) {
            if hardware.caches_survive {
                self.reach(&write.bytes, stamp);
            } else {
                self.queues.entry(unit).or_default().push(write);
            }
        }
    }

    /// Moves everything up to `stamp` from the queue of the unit of `line` to the medium.
    fn empty(&mut self, hardware: Hardware, line: Offset, stamp: Stamp) {
        let unit = line - line % hardware.unit;
        let Some(queue) = self.queues.get_mut(&unit) else {
            return;
        };
        let (gone, left) = queue.drain(..).partition(|write| write.stamp <= stamp);
        let gone: Vec<Write> = gone;
        *queue = left;
        for write in gone {
            self.reach(&write.bytes, write.stamp);
        }
        self.tidy();
    }

    fn fence(&mut self, hardware: Hardware, thread: usize) {
        for (line, stamp) in self.write_backs.remove(&thread).unwrap_or_default() {
            self.empty(hardware, line, stamp);
        }
        for write in self.buffers.remove(&thread).unwrap_or_default() {
            self.reach(&write.bytes, write.stamp);
        }
    }

    fn drain(&mut self, write: &Write) {
        for buffer in self.buffers.values_mut() {
            buffer.retain(|other| other != write);
        }
        self.reach(&write.bytes, write.stamp);
        self.tidy();
    }

    fn reach(&mut self, bytes: &[(Offset, u8)], stamp: Stamp) {
        for &(offset, value) in bytes {
            let held = self.medium.entry(offset).or_insert((stamp, value));
            if held.0 <= stamp {
                *held = (stamp, value);
            }
        }
    }

    /// The steps that the machine can take by itself: move the front of a queue, or any entry of a buffer, to
    /// the medium; if stores tear, only a word of it.
    fn internal_steps(&self, hardware: Hardware) -> Vec<State> {
        let mut next = Vec::new();
        for (&unit, queue) in &self.queues {
            for word in portions(hardware, &queue[0]) {
                let mut state = self.clone();
                if let Some(queue) = state.queues.get_mut(&unit) {
                    queue[0].bytes.retain(|byte| !word.contains(byte));
                    if queue[0].bytes.is_empty() {
                        queue.remove(0);
                    }
                }
                state.reach(&word, queue[0].stamp);
                state.tidy();
                next.push(state);
            }
        }
        for (&thread, buffer) in &self.buffers {
            for (number, write) in buffer.iter().enumerate() {
                for word in portions(hardware, write) {
                    let mut state = self.clone();
                    if let Some(buffer) = state.buffers.get_mut(&thread) {
                        buffer[number].bytes.retain(|byte| !word.contains(byte));
                        if buffer[number].bytes.is_empty() {
                            buffer.remove(number);
                        }
                    }
                    state.reach(&word, write.stamp);
                    state.tidy();
                    next.push(state);
                }
            }
        }
        next
    }

    fn tidy(&mut self) {
        self.queues.retain(|_, queue| !queue.is_empty());
        self.buffers.retain(|_, buffer| !buffer.is_empty());
    }
}

/// Splits a store into one write per unit.
fn pieces(
    hardware: Hardware,
    stamp: Stamp,
    offset: Offset,
    bytes: &[u8],
) -> BTreeMap<Offset, Write> {
    let mut pieces: BTreeMap<Offset, Write> = BTreeMap::new();
    for (at, &value) in (offset..).zip(bytes) {
        let write = pieces.entry(at - at % hardware.unit);
        let write = write.or_insert_with(|| Write {
            stamp,
            bytes: Vec::new(),
        });
        write.bytes.push((at, value));
    }
    pieces
}

/// The parts of a write that can reach the medium in one step.
fn portions(hardware: Hardware, write: &Write) -> Vec<Vec<(Offset, u8)>> {
    if !hardware.words {
        return vec![write.bytes.clone()];
    }
    let words = write.bytes.chunk_by(|a, b| a.0 / 8 == b.0 / 8);
    words.map(<[_]>::to_vec).collect()
}
