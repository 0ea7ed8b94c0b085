//! A service for instruments that record events: sites, calling contexts, and records written in assembly.
//!
//! An event happens at a *site* ([`sites`]), an instruction of the target of which an instrument has decided
//! once how it is recorded ([`record_plan`]). The instrument's own assembly checks that the event is an
//! ordinary one and jumps to `event_record` (in `arch`), which finds the calling context among the stacks
//! that the thread has seen, writes the record and returns to generated code. Any other event goes through
//! an exit of the instrument, whose Rust code uses [`calling_context`] and [`crate::wire`].

pub mod calling_context;
pub mod record_plan;
pub mod sites;

pub use record_plan::{Effect, RecordPlan, Source};
pub use sites::{Site, SiteTable, Sites};

use super::Instrument;
use super::unwind::StackCache;
use crate::translator::context::Context;
use alloc::boxed::Box;

/// The service as an instrument: it has an area in each context, and locks.
pub struct EventRecorder;

/// Values in memory, each on a cache line of its own: a register that is written across two lines cannot be
/// read back at once.
#[repr(C, align(64))]
pub struct Payload(pub [[u8; 64]; 2]);

/// What a thread keeps for its events. Known by offset to assembly and generated code.
#[repr(C)]
pub struct EventArea {
    /// What is recorded, if it is not taken from memory; operands of instructions with many addresses.
    pub payload: Payload,
    /// The address of the event, or what an instrument records in its place.
    pub address: u64,
    /// Where in memory the payload is, if it is there: for an access, where it is really made.
    pub memory: u64,
    /// Extra word of the event: mask bits of a masked store; in the low byte, the zero flag after an instruction.
    pub extra: u64,
    /// Non-zero if the thread has had an event since its last recorded fence.
    pub unordered: u64,
    /// The lock word that is released when the record is out, or 0.
    pub lock: u64,
    /// The counter that [`Effect::Increments`] and [`Effect::Decrements`] change.
    pub counter: u64,
    /// The stacks that the thread has seen, and the one that it saw last; or 0.
    pub memos: u64,
    pub last_memo: u64,
    pub(crate) stack: Option<Box<StackCache>>,
}

impl EventArea {
    /// Address of the payload, for assembly.
    pub fn payload_address(&self) -> u64 {
        self.payload.0.as_ptr() as u64
    }
}

impl Instrument for EventRecorder {
    type Area = EventArea;
    type Code = ();

    fn area() -> EventArea {
        EventArea {
            payload: Payload([[0; 64]; 2]),
            address: 0,
            memory: 0,
            extra: 0,
            unordered: 0,
            lock: 0,
            counter: 0,
            memos: 0,
            last_memo: 0,
            stack: None,
        }
    }

    fn code() {}

    fn quiesced<R>(fork: impl FnOnce() -> R) -> R {
        calling_context::quiesced(fork)
    }

    fn thread_left(context: &mut Context) {
        let area = &mut context.areas.events;
        (area.memos, area.last_memo) = (0, 0);
        area.stack = None;
    }

    fn recovery_point(pc: u64) -> Option<u64> {
        crate::arch::instruments::events::recovery_point(pc)
    }

    fn misaligned_load(pc: u64) -> Option<super::MisalignedLoad> {
        crate::arch::instruments::events::misaligned_load(pc)
    }
}
