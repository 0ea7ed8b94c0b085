//! The thread pointer: the base of the target's FS segment, by which glibc and musl name a thread (`pthread_t`). And what else of
//! the arguments of `clone` has another place on each architecture.

use crate::sys::linux;

/// Place of the thread pointer among the arguments of `clone`, and in the structure of `clone3`.
const CLONE_TLS: usize = 4;
const CLONE3_TLS: usize = 7;

/// The thread pointer that a `clone` or `clone3` gives to the new thread; 0 if it gives none.
pub fn requested(flags: u64, args: &[u64; 6], structure: &Option<[u64; 11]>) -> u64 {
    if flags & u64::from(linux::CLONE_SETTLS) == 0 {
        return 0;
    }
    match structure {
        Some(structure) => structure[CLONE3_TLS],
        None => args[CLONE_TLS],
    }
}

/// Place of the child's id among the arguments of `clone`, and in the structure of `clone3`.
const CLONE_CHILD_ID: usize = 3;
const CLONE3_CHILD_ID: usize = 2;

/// The word that the kernel clears when the new thread ends; 0 if there is none.
pub fn cleared(flags: u64, args: &[u64; 6], structure: &Option<[u64; 11]>) -> u64 {
    if flags & u64::from(linux::CLONE_CHILD_CLEARTID) == 0 {
        return 0;
    }
    match structure {
        Some(structure) => structure[CLONE3_CHILD_ID],
        None => args[CLONE_CHILD_ID],
    }
}

/// The thread pointer of the calling thread, as the target has set it.
pub fn current() -> u64 {
    const ARCH_GET_FS: u32 = 0x1003;
    let mut pointer = 0u64;
    // SAFETY: the kernel writes 8 bytes to `pointer`.
    unsafe { crate::sys!(linux::__NR_arch_prctl, ARCH_GET_FS, &raw mut pointer) };
    pointer
}
