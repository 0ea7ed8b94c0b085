//! Reports which inputs of the target are not the same in each run: the time, and random numbers. A recovery that does not always
//! do the same after it has read the same bytes may depend on them. Other files are reported by [`explore`](super::explore).
//!
//! An instruction counts once it is translated, which is when it is first about to be executed. So does the code of the vDSO, which
//! shows the time.
//!
//! What it can miss: what runs before the entry point of the program, because the dynamic linker always reads a clock; random
//! numbers and times from files and devices.

use super::Instrument;
use crate::arch::Instruction;
use crate::arch::instruments::other_inputs::input_of;
use crate::arch::translator::translate::Emission;
use crate::memory::PAGE;
use crate::sys::linux;
use crate::translator::context::Context;
use crate::translator::process;
use crate::translator::syscall::attend_to;
use crate::wire;
use brownout_ring::input;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use linux_raw_sys::auxvec;

/// Calls that show the time.
const TIME: &[u32] = &[
    linux::__NR_clock_gettime,
    linux::__NR_gettimeofday,
    linux::__NR_times,
    linux::__NR_sysinfo,
    linux::__NR_getrusage,
];

const RANDOM: &[u32] = &[linux::__NR_getrandom];

/// The allocator of the GNU C library marks free memory with a random word. No program can see it.
const OF_ALLOCATOR: [u64; 2] = [8, linux_raw_sys::general::GRND_NONBLOCK as u64];

/// The entry point of the program, until it is reached.
static ENTRY: AtomicU64 = AtomicU64::new(0);
/// Where the vDSO begins; 0 if there is none.
static VDSO: AtomicU64 = AtomicU64::new(0);
/// No vDSO has more code.
const VDSO_BYTES: u64 = 4 * PAGE;
/// Whether inputs are reported.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Whether inputs are reported: runs have to be alike, and the program has started.
pub fn is_reporting() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// The instrument.
pub struct OtherInputs;

impl Instrument for OtherInputs {
    type Area = ();
    type Code = ();

    fn fixes_random_bytes() -> bool {
        wire::is_repeated()
    }

    fn create() {
        if wire::is_repeated() {
            attend_to(TIME);
            attend_to(RANDOM);
        }
    }

    fn area() {}

    fn code() {}

    fn process_started(_context: &mut Context) {
        if wire::is_repeated() {
            let vector = process::auxiliary();
            let known = |kind| value_of(&vector, kind).unwrap_or(0);
            ENTRY.store(known(auxvec::AT_ENTRY), Ordering::Relaxed);
            VDSO.store(known(auxvec::AT_SYSINFO_EHDR), Ordering::Relaxed);
        }
    }

    fn block(_code: &mut (), pc: u64, _out: &mut Emission<'_>) {
        if pc == ENTRY.load(Ordering::Relaxed) && pc != 0 {
            ACTIVE.store(true, Ordering::Relaxed);
        }
        let vdso = VDSO.load(Ordering::Relaxed);
        if vdso != 0 && (vdso..vdso + VDSO_BYTES).contains(&pc) && ACTIVE.load(Ordering::Relaxed) {
            wire::note_input(input::TIME);
        }
    }

    fn before(_code: &mut (), insn: &Instruction, _out: &mut Emission<'_>) {
        if ACTIVE.load(Ordering::Relaxed)
            && let Some(input) = input_of(insn)
        {
            wire::note_input(input);
        }
    }

    fn before_syscall(context: &mut Context) {
        if !ACTIVE.load(Ordering::Relaxed) {
            return;
        }
        let nr = context.cpu.syscall_number() as u32;
        if TIME.contains(&nr) {
            wire::note_input(input::TIME);
        } else if RANDOM.contains(&nr) && context.cpu.syscall_arguments()[1..3] != OF_ALLOCATOR {
            wire::note_input(input::RANDOM);
        }
    }
}

/// An entry of the auxiliary vector, given its bytes.
pub fn value_of(vector: &[u8], kind: u32) -> Option<u64> {
    let (words, _) = vector.as_chunks::<8>();
    let mut pairs = words.chunks_exact(2);
    let found = pairs.find(|pair| u64::from_le_bytes(pair[0]) == u64::from(kind))?;
    Some(u64::from_le_bytes(found[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_point_is_found() {
        let words = [6, 4096, u64::from(auxvec::AT_ENTRY), 0x401000, 0, 0];
        let vector: alloc::vec::Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        assert_eq!(value_of(&vector, auxvec::AT_ENTRY), Some(0x401000));
        assert_eq!(value_of(&vector[..16], auxvec::AT_ENTRY), None);
    }
}
