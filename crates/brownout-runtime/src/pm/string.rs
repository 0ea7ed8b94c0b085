//! String instructions on candidates.
//!
//! They run in pieces that stay on one page: the architecture allows interrupts between elements, so
//! that is no more than what another thread could see anyway.

use super::access::record_store;
use super::emulate::{BadAccess, load_bytes};
use super::site::Site;
use super::{calls, lock_stripe, mappings, stripe_of, unlock_stripe};
use crate::context::{Context, reg};
use crate::wire::Head;
use crate::{fatal, guest};
use brownout_ring::{kind, store};
use iced_x86::Mnemonic;

const DIRECTION: u64 = 0x400;

/// Runs `movs` or `stos`, with or without `rep`.
pub fn run(context: &mut Context, site: &Site) -> Result<(), BadAccess> {
    let insn = &site.insn;
    let element = insn.memory_size().size() as u64;
    let moves = match insn.mnemonic() {
        Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsd | Mnemonic::Movsq => true,
        Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq => false,
        _ => fatal::unsupported(format_args!(
            "the string instruction {:?} at {:#x} reads persistent memory, which the engine cannot record",
            insn.code(),
            insn.ip()
        )),
    };
    let repeats = insn.has_rep_prefix() || insn.has_repne_prefix();
    let mut left = if repeats { context.gpr[reg::RCX] } else { 1 };
    let backwards = context.flags & DIRECTION != 0;
    let caller = calls::context_of(context);
    while left > 0 {
        let count = piece(context, moves, backwards, element, left);
        let done = if count == 0 {
            // An element that crosses a page.
            element_across(context, moves, element, caller)?;
            1
        } else {
            move_piece(context, moves, backwards, element, count, caller)?;
            count
        };
        let distance = done * element;
        let step = |value: &mut u64| {
            *value = if backwards {
                value.wrapping_sub(distance)
            } else {
                value.wrapping_add(distance)
            };
        };
        step(&mut context.gpr[reg::RDI]);
        if moves {
            step(&mut context.gpr[reg::RSI]);
        }
        left -= done;
        if repeats {
            context.gpr[reg::RCX] = left;
        }
    }
    Ok(())
}

/// How many elements can be done without leaving the pages of source and destination.
fn piece(context: &Context, moves: bool, backwards: bool, element: u64, left: u64) -> u64 {
    let room = |at: u64| {
        let offset = at & 4095;
        if backwards {
            (offset + element).min(4096) / element * u64::from(offset + element <= 4096)
        } else {
            (4096 - offset) / element
        }
    };
    let mut count = left.min(room(context.gpr[reg::RDI]));
    if moves {
        count = count.min(room(context.gpr[reg::RSI]));
        // A copy onto itself repeats what it has just written: no further than the distance at a time.
        let distance = context.gpr[reg::RDI].abs_diff(context.gpr[reg::RSI]);
        if distance != 0 {
            count = count.min((distance / element).max(1));
        }
    }
    count
}

/// The lowest address of `count` elements that start at `at`.
fn lowest(at: u64, backwards: bool, element: u64, count: u64) -> u64 {
    if backwards {
        at.wrapping_sub((count - 1) * element)
    } else {
        at
    }
}

fn move_piece(
    context: &mut Context,
    moves: bool,
    backwards: bool,
    element: u64,
    count: u64,
    caller: u32,
) -> Result<(), BadAccess> {
    let len = (count * element) as usize;
    let mut buffer = [0u8; 4096];
    let bytes = &mut buffer[..len];
    if moves {
        let from = lowest(context.gpr[reg::RSI], backwards, element, count);
        load_bytes(from, bytes)?;
        record_load(context, from, bytes, caller);
    } else {
        fill(context, bytes, element);
    }
    let to = lowest(context.gpr[reg::RDI], backwards, element, count);
    write_piece(context, to, bytes, caller)
}

fn fill(context: &Context, bytes: &mut [u8], element: u64) {
    let value = context.gpr[reg::RAX].to_le_bytes();
    for chunk in bytes.chunks_exact_mut(element as usize) {
        chunk.copy_from_slice(&value[..element as usize]);
    }
}

fn element_across(
    context: &mut Context,
    moves: bool,
    element: u64,
    caller: u32,
) -> Result<(), BadAccess> {
    let mut buffer = [0u8; 8];
    let bytes = &mut buffer[..element as usize];
    if moves {
        load_bytes(context.gpr[reg::RSI], bytes)?;
        let from = context.gpr[reg::RSI];
        record_load(context, from, bytes, caller);
    } else {
        fill(context, bytes, element);
    }
    let to = context.gpr[reg::RDI];
    let first = (4096 - (to & 4095)).min(element) as usize;
    write_piece(context, to, &bytes[..first], caller)?;
    if first < bytes.len() {
        write_piece(context, to + first as u64, &bytes[first..], caller)?;
    }
    Ok(())
}

/// Writes bytes that lie on one page.
fn write_piece(context: &mut Context, to: u64, bytes: &[u8], caller: u32) -> Result<(), BadAccess> {
    let Some(mapping) = mappings::find(to).filter(|mapping| mapping.observes(true)) else {
        return guest::write_bytes(to, bytes).map_err(|_| BadAccess(to));
    };
    let stripe = stripe_of(to);
    lock_stripe(stripe);
    let written = guest::write_bytes(to.wrapping_add(mapping.delta), bytes);
    if written.is_ok() {
        context.ea = to;
        record_store(context, store::STRING, caller, 0, bytes);
    }
    unlock_stripe(stripe);
    written.map_err(|_| BadAccess(to))
}

fn record_load(context: &mut Context, from: u64, bytes: &[u8], caller: u32) {
    if mappings::find(from).is_some_and(|mapping| mapping.observes(false)) {
        let head = Head {
            kind: kind::LOAD,
            flags: 0,
            pc: context.pc,
            context: caller,
            addr: from,
        };
        context.wire.record(head, &[bytes]);
    }
}
