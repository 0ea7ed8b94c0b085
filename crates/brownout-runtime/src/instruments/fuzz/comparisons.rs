//! Comparisons: their operands, so that a value that the input has to hold can be put there (REDQUEEN, NDSS'19, §III).
//!
//! The operands of comparing instructions, and the bytes at the first two arguments of calls, which may be those of `memcmp` or `strcmp`.
//! Code is emitted only if the target was started for this.
//!
//! What it can miss: comparisons by vector instructions outside of calls, and those of which an execution has already made
//! [`MOST_AT_ONE_PLACE`].

use super::page::page;
use super::sites::FuzzSite;
use super::stations;
use crate::arch::instruments::fuzz::{Operands, operands};
use crate::target_memory;
use crate::translator::context::Context;
use brownout_ring::fuzz::{COMPARISONS, OPERAND_BYTES, station};
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{Relaxed, Release};

const MOST_AT_ONE_PLACE: u8 = 16;
const PLACES: usize = 1 << 12;
/// How often the comparisons at a place were kept, by a part of its identity. Each copy of the process has its own.
static KEPT: [AtomicU8; PLACES] = [const { AtomicU8::new(0) }; PLACES];

/// Keeps the operands of a comparison that is about to be made.
pub fn note(context: &mut Context, site: &FuzzSite) {
    // What happens before is the same for all inputs.
    if !stations::is_passed(station::BEFORE_INPUT) {
        return;
    }
    let kept = &KEPT[site.place.identity as usize % PLACES];
    if kept.load(Relaxed) >= MOST_AT_ONE_PLACE {
        return;
    }
    let mut left = [0u8; OPERAND_BYTES];
    let mut right = [0u8; OPERAND_BYTES];
    let (len, is_call) = match operands(context, &site.insn) {
        Some(Operands::Values {
            left: one,
            right: other,
            size,
        }) => {
            left[..8].copy_from_slice(&one.to_le_bytes());
            right[..8].copy_from_slice(&other.to_le_bytes());
            (size, false)
        }
        Some(Operands::Memory {
            left: one,
            right: other,
        }) => {
            let read = |at: u64, bytes: &mut [u8]| match at {
                0..4096 => 0,
                _ => target_memory::read_into(at, bytes),
            };
            (read(one, &mut left).min(read(other, &mut right)), true)
        }
        None => return,
    };
    if len == 0 || left[..len] == right[..len] {
        return;
    }
    let Some(page) = page() else { return };
    let number = page.comparison_count.load(Relaxed) as usize;
    let Some(entry) = page
        .comparisons
        .get(number)
        .filter(|_| number < COMPARISONS)
    else {
        return;
    };
    entry.place.store(site.place.identity, Relaxed);
    entry.len.store(len as u32, Relaxed);
    entry.is_call.store(u32::from(is_call), Relaxed);
    for (to, from) in entry
        .left
        .iter()
        .zip(left)
        .chain(entry.right.iter().zip(right))
    {
        to.store(from, Relaxed);
    }
    kept.fetch_add(1, Relaxed);
    page.comparison_count.store(number as u32 + 1, Release);
}
