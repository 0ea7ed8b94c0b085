//! The instrument that records calls of watched functions: their arguments and results.
//!
//! The recorder names the functions (`table`). When code of a file is mapped, they are looked up in its
//! symbol tables (`symbols`), and the translation of their first instruction begins with a visit to the
//! runtime. The return address of a call is known then: the code there is translated again, also with a
//! visit. The target's stack is not changed; a thread remembers its open calls (`open_calls`, `thread`).
//! Ordinary calls and returns are recorded in assembly ([`fast_path`]).
//! Code that neither is nor calls a watched function costs nothing.
//!
//! What it can miss: see `symbols` and `thread`; the returns of calls on a stack in persistent memory are
//! not seen while loads are recorded.

pub(crate) mod lock_functions;
pub(crate) mod open_calls;
pub(crate) mod symbols;
pub(crate) mod table;
mod thread;

pub use open_calls::OpenCalls;

use crate::address_map::{FastMap, FastSet};
use crate::arch::instruments::calls::fast_path;
use crate::arch::translator::translate::Emission;
use crate::arch::{self, Instruction};
use crate::instruments::events::{Effect, RecordPlan, SiteTable, Sites, Source};
use crate::instruments::pm::repeated_loads;
use crate::instruments::{Instrument, Resumption, exit_number};
use crate::slot;
use crate::sys::{self, is_err};
use crate::translator::context::Context;
use crate::translator::dispatch::with_translator;
use brownout_ring::kind;
use brownout_ring::watch::Order;
use symbols::MappedCode;
use table::WatchedFunctions;

/// The instrument.
pub struct WatchedCalls;

/// What a thread keeps for the instrument. Known by offset to assembly and generated code.
#[repr(C)]
pub struct CallsArea {
    /// Entry points that generated code jumps to.
    pub to_call: u64,
    pub to_return: u64,
    /// Address of the table of sites.
    pub sites: u64,
    /// The last call that was recorded of a function which only queries.
    pub query: Query,
    pub open: OpenCalls,
}

/// A call of a function that changes nothing. As long as the thread makes no system call, equal calls are not recorded, and not open.
///
/// What it can miss: that another thread has closed the pool which is asked, and opened another one at the same address. If an equal
/// call is left by a jump, a return of another call to the same place with the same stack counts as left, too.
#[derive(Default)]
#[repr(C)]
pub struct Query {
    /// The function; 0 if there is none.
    pub pc: u64,
    /// Where on the stack the return address is, and the address.
    pub slot: u64,
    pub back: u64,
    pub arguments: [u64; 2],
    /// The slot of an equal call that has not returned, or 0.
    pub repeated: u64,
}

/// The instrument's only exit: the thread enters a watched function, whose number is the address of the
/// event, or may have returned from one, at site `argument`.
pub const VISIT: u32 = exit_number::<WatchedCalls>(0);

/// What happens at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallSite {
    /// The first instruction of a watched function; the size is that of its arguments.
    Entry,
    /// Where calls of watched functions have returned to; the size is that of a result.
    Return,
}

impl CallSite {
    fn plan(self) -> RecordPlan {
        let (kind, effect) = match self {
            CallSite::Entry => (kind::CALL, Effect::Increments),
            CallSite::Return => (kind::RETURN, Effect::Decrements),
        };
        RecordPlan {
            kind,
            effect,
            source: Source::Payload,
            order: match self {
                CallSite::Entry => 0,
                CallSite::Return => RecordPlan::MAY_BORROW,
            },
            ..RecordPlan::BY_RUST
        }
    }
}

static SITES: SiteTable<CallSite> = SiteTable::new();

/// What the instrument keeps under the translator's lock: where visits are emitted.
pub struct CallsCode {
    table: WatchedFunctions,
    sites: Sites<CallSite>,
    /// The first instructions of watched functions.
    entries: FastMap<u64, u32>,
    /// Where calls of them have returned to. Nothing leaves this set: a visit without a call is ignored.
    returns: FastSet<u64>,
}

impl CallsCode {
    /// Observes the function at `pc`.
    pub fn enter_at(&mut self, pc: u64, function: u32) {
        self.entries.insert(pc, function);
    }

    /// Observes returns to `pc`. False if that is done already.
    pub fn return_at(&mut self, pc: u64) -> bool {
        self.returns.insert(pc)
    }
}

impl Instrument for WatchedCalls {
    type Area = CallsArea;
    type Code = CallsCode;

    fn create() {
        SITES.create();
    }

    fn area() -> CallsArea {
        CallsArea {
            to_call: 0,
            to_return: 0,
            sites: SITES.address(),
            query: Query::default(),
            open: OpenCalls::new(),
        }
    }

    fn code() -> CallsCode {
        CallsCode {
            table: WatchedFunctions::of_the_wire(),
            sites: Sites::new(&SITES),
            entries: FastMap::default(),
            returns: FastSet::default(),
        }
    }

    fn connect(context: &mut Context) {
        fast_path::connect(&mut context.areas.calls);
        let room = context.spare_room();
        // SAFETY: the room belongs to this context, which is new; the allocator knows its own memory by the address.
        unsafe { context.areas.calls.open.lend(room) };
        context.areas.events.counter = &raw const context.areas.calls.open.len as u64;
    }

    fn thread_left(context: &mut Context) {
        context.areas.calls.open = OpenCalls::new();
    }

    fn begin_unit(code: &mut CallsCode, unit: usize) {
        code.sites.begin_unit(unit);
    }

    fn forget_code(code: &mut CallsCode, start: u64, end: u64) {
        code.entries.retain(|&pc, _| pc < start || pc >= end);
        lock_functions::forget(start, end);
    }

    fn observe(code: &mut CallsCode, pc: u64) -> bool {
        code.return_at(pc)
    }

    #[inline]
    fn before(code: &mut CallsCode, insn: &Instruction, out: &mut Emission<'_>) {
        if code.entries.is_empty() && code.returns.is_empty() {
            return;
        }
        let pc = arch::pc(insn);
        if code.returns.contains(&pc) {
            let kind = CallSite::Return;
            let site = code.sites.add(insn, kind, 16, kind.plan());
            out.visit(site, slot!(areas.calls.to_return));
        }
        if let Some(&function) = code.entries.get(&pc) {
            let kind = CallSite::Entry;
            let size = 8 * u32::from(code.table.arguments(function));
            let order = code.table.order(function);
            let order = match Order::of(order) {
                // Other threads wait for a release. An acquire is no news to them.
                Order::Acquires => order | RecordPlan::BORROWS,
                Order::Query => Order::None as u8 | RecordPlan::QUERIES,
                _ => order,
            };
            let plan = RecordPlan {
                order,
                ..kind.plan()
            };
            let site = code.sites.add(insn, kind, size, plan);
            // `Context::pc` must keep where the last indirect branch went.
            out.set_slot(slot!(areas.events.address), u64::from(function));
            out.visit(site, slot!(areas.calls.to_call));
        }
    }

    #[inline]
    fn exit(context: &mut Context, _exit: u32) -> Resumption {
        visit(context);
        Resumption::InPlace
    }

    fn fault(context: &mut Context) -> bool {
        let stack = context.cpu.stack_pointer();
        context.areas.calls.open.faulted(context.pc, stack);
        false
    }

    fn recovery_point(pc: u64) -> Option<u64> {
        fast_path::recovery_point(pc)
    }

    #[inline]
    fn before_syscall(context: &mut Context) {
        context.areas.calls.query.pc = 0;
    }

    fn module_mapped(fd: i32, start: u64, len: u64, offset: u64) {
        let read = |buffer: &mut [u8], at: u64| {
            let got = sys::pread(fd, buffer, at);
            if is_err(got) { 0 } else { got as usize }
        };
        let mapped = MappedCode { start, len, offset };
        with_translator(|translator| {
            let code = &mut translator.instrumented.calls;
            if code.table.is_empty() {
                return;
            }
            for found in symbols::find(&read, &mapped, &code.table) {
                code.enter_at(found.address, found.function);
                if matches!(
                    Order::of(code.table.order(found.function)),
                    Order::Acquires | Order::Releases
                ) {
                    lock_functions::add(found.address, found.size);
                }
                // It may have run already, if the file was mapped here before.
                translator.cache.invalidate_instruction(found.address);
            }
        });
    }
}

/// Generated code is at the start of a watched function, or where a call of one may have returned to.
fn visit(context: &mut Context) {
    let site = SITES.get(context.argument);
    // Every return notes where it goes; a jump or a branch that leads to the same instruction does not.
    let was_returned_to = context.pc == site.pc;
    context.pc = site.pc;
    if site.kind == CallSite::Entry {
        let function = context.areas.events.address as u32;
        thread::entered(context, function, site.size as usize);
        let argument = context.cpu.call_arguments()[0];
        let order = site.plan.order & RecordPlan::ORDER_MASK;
        repeated_loads::entered(context, order, argument);
    } else if was_returned_to {
        thread::returned(context);
    }
}
