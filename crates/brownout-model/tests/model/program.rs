//! Small programs that access persistent memory, and all orders in which their steps can take effect.

use std::ops::Range;

use brownout_model::LINE;

/// A byte offset in persistent memory.
pub type Offset = u64;

/// Locations of litmus tests, each of one byte.
pub const X: Offset = 0;
/// In the line of `X`.
pub const X2: Offset = 8;
/// In another line than `X`, but in the same sector.
pub const NEAR_X: Offset = 64;
/// In another page than `X`.
pub const Y: Offset = 4096;
pub const Z: Offset = 8192;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Store(Offset, Vec<u8>),
    NonTemporal(Offset, Vec<u8>),
    Clflush(Offset),
    /// `clwb` or `clflushopt`.
    Clwb(Offset),
    /// `sfence` or `mfence`; their effect on persistence is the same.
    Fence,
    /// A locked read-modify-write or `xchg` that stores.
    Locked(Offset, Vec<u8>),
    /// `msync(MS_SYNC)` on the page.
    Sync(Offset),
    /// A load; only executions in which it returns this value are considered.
    Read(Offset, u8),
}

/// A thread and its operation.
pub type Step = (usize, Op);

pub fn store(offset: Offset, value: u8) -> Op {
    Op::Store(offset, vec![value])
}

pub fn nt_store(offset: Offset, value: u8) -> Op {
    Op::NonTemporal(offset, vec![value])
}

pub fn locked(offset: Offset, value: u8) -> Op {
    Op::Locked(offset, vec![value])
}

/// All orders in which the steps of the threads can take effect such that each load reads the value that the test
/// states. A thread whose load would read another value stops there.
///
/// Two steps of a thread take effect in program order if Px86 requires it (Table 1 of Jaaru). A load waits for an
/// earlier store of its thread to the same location; store forwarding is not modelled.
pub fn executions(threads: &[Vec<Op>]) -> Vec<Vec<Step>> {
    let mut found = Vec::new();
    let mut left: Vec<Vec<&Op>> = threads
        .iter()
        .map(|thread| thread.iter().collect())
        .collect();
    interleave(&mut left, &mut Vec::new(), &mut found);
    found
}

fn interleave(left: &mut [Vec<&Op>], done: &mut Vec<Step>, found: &mut Vec<Vec<Step>>) {
    let mut stuck = true;
    for thread in 0..left.len() {
        for at in 0..left[thread].len() {
            let op = left[thread][at];
            let waits = left[thread][..at].iter().any(|first| first.precedes(op));
            let reads_other =
                matches!(op, Op::Read(offset, value) if visible(done, *offset) != *value);
            if waits || reads_other {
                continue;
            }
            stuck = false;
            left[thread].remove(at);
            done.push((thread, op.clone()));
            interleave(left, done, found);
            done.pop();
            left[thread].insert(at, op);
        }
    }
    if stuck {
        found.push(done.clone());
    }
}

impl Op {
    /// Whether this takes effect before `later`, a later operation of the same thread.
    pub fn precedes(&self, later: &Op) -> bool {
        match (self, later) {
            (Op::Store(..) | Op::NonTemporal(..), Op::Read(..) | Op::Clwb(_))
            | (Op::Clflush(_), Op::Clwb(_))
            | (Op::Clwb(_), Op::Clflush(_)) => self.shares_line_with(later),
            (Op::Clflush(_), Op::Read(..)) => false,
            (Op::Clwb(_), Op::Read(..) | Op::Store(..) | Op::NonTemporal(..) | Op::Clwb(_)) => {
                false
            }
            _ => true,
        }
    }

    fn shares_line_with(&self, other: &Op) -> bool {
        let (own, others) = (self.lines(), other.lines());
        own.start < others.end && others.start < own.end
    }

    fn lines(&self) -> Range<Offset> {
        let (start, len) = match self {
            Op::Store(at, bytes) | Op::NonTemporal(at, bytes) | Op::Locked(at, bytes) => {
                (*at, bytes.len() as Offset)
            }
            Op::Clflush(at) | Op::Clwb(at) | Op::Read(at, _) => (*at, 1),
            Op::Fence | Op::Sync(_) => unreachable!("ordered with all other operations"),
        };
        start / LINE..(start + len).div_ceil(LINE)
    }
}

/// The value that a load reads.
fn visible(done: &[Step], offset: Offset) -> u8 {
    let newest = done.iter().rev().find_map(|(_, op)| match op {
        Op::Store(at, bytes) | Op::NonTemporal(at, bytes) | Op::Locked(at, bytes) => {
            bytes.get(usize::try_from(offset.checked_sub(*at)?).ok()?)
        }
        _ => None,
    });
    newest.copied().unwrap_or(0)
}
