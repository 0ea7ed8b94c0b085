//! Loads are recorded once persistent memory is shared, if they are not recorded from the start.
//!
//! No load can race before a second thread or process can store. The target's mappings therefore keep their right to read until
//! the first of these events, and loads cost nothing:
//!
//! 1. The process is about to create a thread.
//! 2. The process is about to fork while it has candidates.
//! 3. A process maps a file that another process of the recording has mapped at some time.
//!
//! Then the mappings lose all rights, and all code is translated anew, so that loads are recorded and locks recognised from there on.
//! That is safe because it happens in a system call of a process that has one thread: in the first two cases before the call
//! takes effect; in the third, other processes notice it at their next system call.
//!
//! What it can miss: loads between a mapping by a third party and the next system call of the processes that had mapped the file.

use super::{candidates, real_prot, repeated_loads};
use crate::lock::is_single;
use crate::sys::linux;
use crate::translator::dispatch::with_translator;
use crate::translator::{map_lock, process};
use crate::wire;

/// The process is about to create a thread, or to fork.
pub fn about_to_share(forks: bool) {
    if forks && candidates::any() {
        wire::note_shared();
    }
    if wire::awaits_sharing() && (!forks || candidates::any()) {
        begin();
    }
}

/// Other processes may have mapped what this one has mapped.
pub fn notice() {
    if wire::awaits_sharing() && wire::is_shared() && candidates::any() {
        begin();
    }
}

/// Records loads from now on.
#[cold]
fn begin() {
    // A child of `vfork` has its parent's memory, which nobody else uses while it runs.
    if !is_single() || process::is_vfork_child() {
        return;
    }
    let _map_lock = map_lock::acquire();
    wire::set_sharing();
    for mapping in candidates::overlapping(0, u64::MAX) {
        let rights = real_prot(mapping.prot);
        // SAFETY: takes rights from a mapping of the target, whose accesses then fault and are observed.
        unsafe { crate::sys!(linux::__NR_mprotect, mapping.start, mapping.len(), rights) };
    }
    candidates::changed();
    process::for_each_thread(|context| {
        // SAFETY: the only thread of the process, which is the one that is here.
        repeated_loads::begin(unsafe { &mut *context });
    });
    with_translator(|translator| {
        translator.instrumented.pm.observe_loads();
        translator.instrumented.locks = true;
        translator.cache.invalidate_all();
    });
}
