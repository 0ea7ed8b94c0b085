//! Transfers by `io_uring`: the kernel reads into candidates or writes to their files on requests in memory that it
//! shares with the target.
//!
//! The engine maps each ring a second time. When the target submits, requests on candidates are redirected to the
//! aliases, as arguments of system calls are. Their results are recorded when their completions are found: at the
//! end of the submitting call, or at the next system call of any kind.
//!
//! What it can miss, and notes: rings that a thread of the kernel polls, rings of unusual layout, and requests on
//! registered files. A target that looks for completions without ever making a call has them recorded late.

mod ring_memory;

use crate::arch::instruments::pm::emulate;
use crate::instruments::events::calling_context;
use crate::instruments::pm::candidates;
use crate::instruments::pm::kernel::{file, note, store};
use crate::lock::Lock;
use crate::sys;
use crate::sys::{is_err, linux};
use crate::translator::context::Context;
use crate::{memory, target_memory};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicU32, Ordering};
use linux_raw_sys::io_uring as uring;
use ring_memory::RingMemory;

/// Bytes of a request, and where its fields are.
const REQUEST: u64 = 64;
const OPCODE: u64 = 0;
const FLAGS: u64 = 1;
const DESCRIPTOR: u64 = 4;
const OFFSET: u64 = 8;
const ADDRESS: u64 = 16;
const LENGTH: u64 = 24;
const USER_DATA: u64 = 32;
/// Bytes of a completion.
const COMPLETION: u64 = 16;
/// In a request's flags: the descriptor is the number of a registered file.
const FIXED_FILE: u8 = 1;

/// Layouts that are not supported.
const UNUSUAL: u32 = uring::IORING_SETUP_SQPOLL
    | uring::IORING_SETUP_SQE128
    | uring::IORING_SETUP_CQE32
    | uring::IORING_SETUP_NO_MMAP;

/// A ring of the target, mapped by the engine.
struct Ring {
    params: uring::io_uring_params,
    submissions: RingMemory,
    completions: RingMemory,
    requests: RingMemory,
    /// Completions before this one have been handled.
    seen: u32,
    flights: Vec<Flight>,
}

/// A request that is under way.
struct Flight {
    user_data: u64,
    effect: Effect,
}

enum Effect {
    /// These parts of memory are filled, one after the other.
    Memory(Vec<(u64, u64)>),
    /// A file is written at an offset, by a descriptor; how it was before.
    File(i32, u64, linux::stat),
}

static RINGS: Lock<BTreeMap<i32, Ring>> = Lock::new(BTreeMap::new());
static IN_FLIGHT: AtomicU32 = AtomicU32::new(0);

/// What was changed for a call, to be restored.
#[derive(Default)]
pub struct Submission {
    /// Fields of requests: offset, what the target had there, and what was put there.
    addresses: Vec<(u64, u64, u64)>,
    /// Arrays of buffers that take the place of the target's.
    vectors: Vec<Vec<u64>>,
    /// Requests that will do something to candidates: their index among those submitted, and their user data.
    flights: Vec<(u64, u64)>,
}

/// Maps the ring that a call has just made, if it did.
pub fn attach(context: &mut Context, nr: u32, params_at: u64, raw: u64) {
    if nr != linux::__NR_io_uring_setup || is_err(raw) {
        return;
    }
    let fd = raw as i32;
    let mut bytes = [0u8; size_of::<uring::io_uring_params>()];
    if emulate::load_bytes(params_at, &mut bytes).is_err() {
        return;
    }
    // SAFETY: a structure of integers, for which any bytes are valid.
    let params: uring::io_uring_params =
        unsafe { core::ptr::read_unaligned(bytes.as_ptr().cast()) };
    let ring = (params.flags & UNUSUAL == 0)
        .then(|| Ring::map(fd, params))
        .flatten();
    match ring {
        Some(ring) => {
            RINGS.lock().insert(fd, ring);
        }
        None => {
            RINGS.lock().remove(&fd);
            note(
                context,
                &alloc::format!(
                    "the program has an io_uring (descriptor {fd}) that is polled by the kernel or laid out unusually: \
                     what it writes to persistent memory or its files is not recorded"
                ),
            );
        }
    }
}

impl Ring {
    fn map(fd: i32, params: uring::io_uring_params) -> Option<Ring> {
        let (sq, cq) = (&params.sq_off, &params.cq_off);
        let submissions = submission_bytes(&params, sq.array);
        let completions = completion_bytes(&params, cq.cqes);
        Some(Ring {
            submissions: RingMemory::map(fd, submissions, uring::IORING_OFF_SQ_RING)?,
            completions: RingMemory::map(fd, completions, uring::IORING_OFF_CQ_RING)?,
            requests: RingMemory::map(
                fd,
                REQUEST * u64::from(params.sq_entries),
                uring::IORING_OFF_SQES,
            )?,
            params,
            seen: 0,
            flights: Vec::new(),
        })
    }

    fn completion_tail(&self) -> u32 {
        self.completions
            .word(self.params.cq_off.tail.into())
            .load(Ordering::Acquire)
    }

    /// The requests that the target is about to submit, by their offsets.
    fn submitted(&self, count: u32) -> Vec<u64> {
        let sq = &self.params.sq_off;
        let at = |offset: u32| self.submissions.word(offset.into()).load(Ordering::Acquire);
        let (head, tail, mask) = (at(sq.head), at(sq.tail), self.params.sq_entries - 1);
        let count = count
            .min(tail.wrapping_sub(head))
            .min(self.params.sq_entries);
        (0..count)
            .map(|number| {
                let slot = head.wrapping_add(number) & mask;
                let plain = self.params.flags & uring::IORING_SETUP_NO_SQARRAY != 0;
                let index = if plain { slot } else { at(sq.array + 4 * slot) };
                REQUEST * u64::from(index & mask)
            })
            .collect()
    }

    /// Redirects a request from candidates, and remembers what it will do to them.
    fn submit(
        &mut self,
        (index, request): (u64, u64),
        changes: &mut Submission,
    ) -> Result<(), &'static str> {
        use uring::io_uring_op as op;
        let opcode = u32::from(self.requests.read::<u8>(request + OPCODE));
        let address = self.requests.read::<u64>(request + ADDRESS);
        let len = u64::from(self.requests.read::<u32>(request + LENGTH));
        let is = |ops: &[op]| ops.iter().any(|&op| op as u32 == opcode);
        let vectored = is(&[op::IORING_OP_READV, op::IORING_OP_WRITEV]);
        let reads = is(&[
            op::IORING_OP_READ,
            op::IORING_OP_READV,
            op::IORING_OP_READ_FIXED,
            op::IORING_OP_RECV,
        ]);
        let writes = is(&[
            op::IORING_OP_WRITE,
            op::IORING_OP_WRITEV,
            op::IORING_OP_WRITE_FIXED,
        ]);
        if !reads && !writes && !is(&[op::IORING_OP_SEND]) {
            return Ok(());
        }
        let parts = if vectored {
            buffers(address, len)
        } else {
            alloc::vec![(address, len)]
        };
        let touches = parts.iter().any(|&(at, _)| candidates::find(at).is_some());
        if touches {
            let replacement = if vectored {
                changes.vectors.push(aliases(&parts));
                changes
                    .vectors
                    .last()
                    .map_or(0, |vector| vector.as_ptr() as u64)
            } else {
                alias(address)
            };
            changes
                .addresses
                .push((request + ADDRESS, address, replacement));
            self.requests.write(request + ADDRESS, replacement);
        }
        let user_data = self.requests.read::<u64>(request + USER_DATA);
        if reads && touches {
            self.take_off(user_data, Effect::Memory(parts));
            changes.flights.push((index, user_data));
        }
        if writes {
            if self.requests.read::<u8>(request + FLAGS) & FIXED_FILE != 0 {
                return Err("a registered file");
            }
            let fd = self.requests.read::<i32>(request + DESCRIPTOR);
            let known = |stat: &linux::stat| candidates::is_known_file(stat.st_dev, stat.st_ino);
            if let Some(stat) = sys::fstat(fd).filter(known) {
                let offset = self.requests.read::<u64>(request + OFFSET);
                self.take_off(user_data, Effect::File(fd, offset, stat));
                changes.flights.push((index, user_data));
            }
        }
        Ok(())
    }

    fn take_off(&mut self, user_data: u64, effect: Effect) {
        self.flights.push(Flight { user_data, effect });
        IN_FLIGHT.fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets a request that the kernel did not take.
    fn abandon(&mut self, user_data: u64) {
        if let Some(index) = self.flights.iter().rposition(|f| f.user_data == user_data) {
            self.flights.remove(index);
            IN_FLIGHT.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Requests that have been completed since the last look, with their results.
    fn landed(&mut self) -> Vec<(Flight, i32)> {
        let mut landed = Vec::new();
        let (tail, cq) = (self.completion_tail(), &self.params.cq_off);
        while self.seen != tail && !self.flights.is_empty() {
            let slot = u64::from(self.seen & (self.params.cq_entries - 1));
            let at = u64::from(cq.cqes) + COMPLETION * slot;
            let user_data = self.completions.read::<u64>(at);
            let result = self.completions.read::<i32>(at + 8);
            self.seen = self.seen.wrapping_add(1);
            let found = self.flights.iter().position(|f| f.user_data == user_data);
            if let Some(index) = found {
                IN_FLIGHT.fetch_sub(1, Ordering::Relaxed);
                landed.push((self.flights.remove(index), result));
            }
        }
        landed
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let flights = self.flights.len() as u32;
        IN_FLIGHT.fetch_sub(flights, Ordering::Relaxed);
    }
}

/// Descriptors are closed, and rings with them: the kernel keeps a ring for as long as it is mapped.
pub fn closed(descriptors: RangeInclusive<u32>) {
    RINGS
        .lock()
        .retain(|&fd, _| !descriptors.contains(&(fd as u32)));
}

fn submission_bytes(params: &uring::io_uring_params, array: u32) -> u64 {
    u64::from(array) + 4 * u64::from(params.sq_entries)
}

fn completion_bytes(params: &uring::io_uring_params, first: u32) -> u64 {
    u64::from(first) + COMPLETION * u64::from(params.cq_entries)
}

/// Where the kernel finds what the target has at an address.
fn alias(address: u64) -> u64 {
    candidates::find(address).map_or(address, |mapping| address.wrapping_add(mapping.delta))
}

/// An array of buffers.
fn buffers(at: u64, count: u64) -> Vec<(u64, u64)> {
    let mut bytes = alloc::vec![0u8; count.min(1024) as usize * 16];
    if emulate::load_bytes(at, &mut bytes).is_err() {
        return Vec::new();
    }
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    bytes
        .chunks_exact(16)
        .map(|entry| (word(&entry[..8]), word(&entry[8..])))
        .collect()
}

/// The same array, redirected to the aliases.
fn aliases(parts: &[(u64, u64)]) -> Vec<u64> {
    parts
        .iter()
        .flat_map(|&(at, len)| [alias(at), len])
        .collect()
}

/// Before a call: redirects what it submits or registers from candidates.
pub fn before(context: &mut Context, nr: u32, args: &mut [u64; 6]) -> Submission {
    let mut changes = Submission::default();
    let fd = args[0] as i32;
    match nr {
        linux::__NR_io_uring_register if args[1] == REGISTER_BUFFERS => {
            let parts = buffers(args[2], args[3]);
            if parts.iter().any(|&(at, _)| candidates::find(at).is_some()) {
                changes.vectors.push(aliases(&parts));
                args[2] = changes.vectors[0].as_ptr() as u64;
            }
        }
        linux::__NR_io_uring_enter => {
            let mut missed = None;
            if let Some(ring) = RINGS.lock().get_mut(&fd) {
                if ring.flights.is_empty() {
                    ring.seen = ring.completion_tail();
                }
                for request in (0..).zip(ring.submitted(args[1] as u32)) {
                    missed = ring.submit(request, &mut changes).err().or(missed);
                }
            }
            if let Some(what) = missed {
                note(
                    context,
                    &alloc::format!(
                        "the program writes by io_uring (descriptor {fd}) to {what}: if that is a file of persistent \
                         memory, it is not recorded"
                    ),
                );
            }
        }
        _ => {}
    }
    changes
}

/// `IORING_REGISTER_BUFFERS`.
const REGISTER_BUFFERS: u64 = 0;

/// After a call that took so many requests: restores what was changed for it.
pub fn after(args: &[u64; 6], taken: u64, changes: &Submission) {
    let mut rings = RINGS.lock();
    let Some(ring) = rings.get_mut(&(args[0] as i32)) else {
        return;
    };
    for &(at, old, new) in &changes.addresses {
        // The target may already have put another request there.
        if ring.requests.read::<u64>(at) == new {
            ring.requests.write(at, old);
        }
    }
    let left = changes.flights.iter().filter(|&&(index, _)| index >= taken);
    left.for_each(|&(_, user_data)| ring.abandon(user_data));
}

/// Records what completed requests did to candidates and their files.
pub fn collect(context: &mut Context) {
    if IN_FLIGHT.load(Ordering::Relaxed) == 0 {
        return;
    }
    let landed: Vec<(Flight, i32)> = RINGS.lock().values_mut().flat_map(Ring::landed).collect();
    for (flight, result) in landed {
        let done = u64::try_from(result).unwrap_or(0);
        match flight.effect {
            Effect::Memory(parts) => filled(context, &parts, done),
            Effect::File(fd, offset, before) if result > 0 => {
                // Recorded like a system call that does the same.
                let (nr, args) = match offset {
                    u64::MAX => (linux::__NR_write, [0; 6]),
                    _ => (linux::__NR_pwrite64, [0, 0, 0, offset, 0, 0]),
                };
                file::record_written(context, nr, &args, done, fd, &before);
            }
            Effect::File(..) => {}
        }
    }
}

/// Records that the kernel has filled memory from the start. Never inlined: each system call would pay for its buffer,
/// whose pages a fork has copied.
#[inline(never)]
fn filled(context: &mut Context, parts: &[(u64, u64)], mut left: u64) {
    let caller = calling_context::context_of(context);
    for &(start, len) in parts {
        let end = start + len.min(left);
        left -= end - start;
        let mut at = start;
        while at < end {
            let mut bytes = [0u8; memory::PAGE as usize];
            let piece = (memory::PAGE - at % memory::PAGE).min(end - at);
            let bytes = &mut bytes[..piece as usize];
            if let Some(mapping) = candidates::find(at).filter(|mapping| mapping.observes(true)) {
                let stripe = mapping.stripe(at);
                stripe.lock();
                if target_memory::read_into(at.wrapping_add(mapping.delta), bytes) == bytes.len() {
                    store::record(context, linux::__NR_io_uring_enter, caller, at, bytes);
                }
                stripe.unlock();
            }
            at += piece;
        }
    }
}
