//! The instrument that records calls of watched functions: their arguments and results.
//!
//! The recorder names the functions ([`table`]). When code of a file is mapped, they are looked for in
//! its symbol tables ([`symbols`]), and the translation of their first instruction begins with a visit
//! to the runtime. Where such a call returns to is known then: the code there is translated anew with a
//! visit, too. The program's stack is left alone; a thread remembers its open calls ([`open`], [`thread`]).
//! Plain calls and returns are recorded in assembly ([`fast_path`]).
//! Code that neither is nor calls a watched function costs nothing.
//!
//! What it can miss: see [`symbols`] and [`thread`]; calls on a stack in persistent memory while loads are
//! recorded return unseen.

pub(crate) mod open_calls;
mod symbols;
mod table;
mod thread;

pub use crate::arch::instruments::calls::fast_path::{connect, fault_in_assembly};
pub use open_calls::OpenCalls;
pub use thread::left_thread;

use crate::instruments::pm;
use crate::instruments::pm::SiteKind;
use crate::sys;
use crate::sys::is_err;
use crate::translator::cache::{FastMap, FastSet};
use crate::translator::context::Context;
use crate::translator::dispatch::with_translator;
use symbols::Mapping;
use table::Table;

/// The start of a watched function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub function: u32,
    /// How many of its arguments are to be told.
    pub arguments: u8,
}

/// The visits that are wanted before an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visits {
    /// Calls have returned there.
    pub is_return: bool,
    pub entry: Option<Entry>,
}

/// The translator's side: where visits are wanted.
pub struct Watches {
    table: Table,
    /// The first instructions of watched functions.
    entries: FastMap<u64, u32>,
    /// Where calls of them have returned to. Nothing leaves this set: a visit without a call is ignored.
    returns: FastSet<u64>,
}

impl Watches {
    pub fn new() -> Watches {
        Watches {
            table: Table::of_the_wire(),
            entries: FastMap::default(),
            returns: FastSet::default(),
        }
    }

    /// The visits that are wanted before the instruction at `pc`.
    #[inline]
    pub fn visits(&self, pc: u64) -> Visits {
        if self.entries.is_empty() && self.returns.is_empty() {
            return Visits::default();
        }
        Visits {
            is_return: self.returns.contains(&pc),
            entry: self.entries.get(&pc).map(|&function| Entry {
                function,
                arguments: self.table.arguments(function),
            }),
        }
    }

    /// Watches the function at `pc`.
    pub fn enter_at(&mut self, pc: u64, function: u32) {
        self.entries.insert(pc, function);
    }

    /// Watches returns to `pc`. False if that is done already.
    pub fn return_at(&mut self, pc: u64) -> bool {
        self.returns.insert(pc)
    }

    /// Forgets functions in a range that is no longer what it was.
    pub fn forget(&mut self, start: u64, end: u64) {
        self.entries.retain(|&pc, _| pc < start || pc >= end);
    }
}

impl Default for Watches {
    fn default() -> Self {
        Watches::new()
    }
}

/// Code of the file behind `fd` was mapped: `len` bytes at `start`, from `offset` on.
pub fn module_mapped(fd: i32, start: u64, len: u64, offset: u64) {
    let read = |buffer: &mut [u8], at: u64| {
        let got = sys::pread(fd, buffer, at);
        if is_err(got) { 0 } else { got as usize }
    };
    let mapping = Mapping { start, len, offset };
    with_translator(|translator| {
        let watches = &mut translator.watches;
        if watches.table.is_empty() {
            return;
        }
        for found in symbols::find(&read, &mapping, &watches.table) {
            watches.enter_at(found.address, found.function);
            // It may have run already, if the file was mapped here before.
            translator.cache.invalidate_instruction(found.address);
        }
    });
}

/// The program gives a range up.
pub fn module_unmapped(start: u64, end: u64) {
    with_translator(|translator| translator.watches.forget(start, end));
}

/// Generated code is at the start of a watched function, or where a call of one may have returned to.
pub fn visit(context: &mut Context) {
    let site = pm::site(context.argument);
    // Every return notes where it goes; a jump or a branch that leads to the same place does not.
    let was_returned_to = context.pc == site.pc;
    context.pc = site.pc;
    if site.kind == SiteKind::Call {
        thread::entered(context, context.ea as u32, site.size as usize);
    } else if was_returned_to {
        thread::returned(context);
    }
}
