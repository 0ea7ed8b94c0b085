//! Small programs on persistent memory.

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
    /// `clflushopt` too.
    Clwb(Offset),
    /// `sfence` or `mfence`: they do not differ in what they make persistent.
    Fence,
    /// A locked read-modify-write or `xchg` that stores.
    Locked(Offset, Vec<u8>),
    /// `msync(MS_SYNC)` on the page.
    Sync(Offset),
    /// A load that the litmus test takes to have returned this value.
    Read(Offset, u8),
}

/// An operation, the thread that does it.
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

/// All orders in which the steps of some threads can take effect such that each load reads what the
/// test says. A thread whose load would read something else stops there.
pub fn executions(threads: &[Vec<Op>]) -> Vec<Vec<Step>> {
    let mut found = Vec::new();
    interleave(
        threads,
        &mut vec![0; threads.len()],
        &mut Vec::new(),
        &mut found,
    );
    found
}

fn interleave(
    threads: &[Vec<Op>],
    next: &mut Vec<usize>,
    done: &mut Vec<Step>,
    found: &mut Vec<Vec<Step>>,
) {
    let mut stuck = true;
    for thread in 0..threads.len() {
        let Some(op) = threads[thread].get(next[thread]) else {
            continue;
        };
        if let Op::Read(offset, value) = op
            && visible(done, *offset) != *value
        {
            continue;
        }
        stuck = false;
        next[thread] += 1;
        done.push((thread, op.clone()));
        interleave(threads, next, done, found);
        done.pop();
        next[thread] -= 1;
    }
    if stuck {
        found.push(done.clone());
    }
}

/// What a load reads.
fn visible(done: &[Step], offset: Offset) -> u8 {
    let newest = done.iter().rev().find_map(|(_, op)| match op {
        Op::Store(at, bytes) | Op::NonTemporal(at, bytes) | Op::Locked(at, bytes) => {
            bytes.get(usize::try_from(offset.checked_sub(*at)?).ok()?)
        }
        _ => None,
    });
    newest.copied().unwrap_or(0)
}
