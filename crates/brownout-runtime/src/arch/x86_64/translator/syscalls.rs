//! System calls that only x86-64 has: its old calls, which other architectures replace by more general ones, and those
//! for its segments.

use super::arch_prctl;
use crate::sys::{err, errno, linux};
use crate::translator::context::Context;
use crate::translator::process;
use crate::translator::syscall::{Outcome, paths};
use crate::wire;

/// The calls that are always attended.
pub const ATTENDED: &[u32] = &[
    linux::__NR_fork,
    linux::__NR_vfork,
    linux::__NR_arch_prctl,
    linux::__NR_readlink,
    linux::__NR_open,
    linux::__NR_dup2,
    linux::__NR_modify_ldt,
];

/// The call by which the runtime sets up its own thread pointer.
pub const SET_THREAD_POINTER: u32 = linux::__NR_arch_prctl;

/// Serves a call. `None` if it is none of those here, or needs no attention with these arguments.
pub fn serve(context: &mut Context, nr: u32, args: [u64; 6]) -> Option<Outcome> {
    let [a, b, c, ..] = args;
    Some(match nr {
        linux::__NR_fork => {
            let args = [u64::from(linux::SIGCHLD), 0, 0, 0, 0, 0];
            Outcome::Done(process::clone(context, args))
        }
        linux::__NR_vfork => Outcome::Done(process::vfork(context)),
        linux::__NR_arch_prctl => arch_prctl::serve(context, args),
        linux::__NR_modify_ldt => Outcome::Done(err(errno::ENOSYS)),
        linux::__NR_readlink => paths::readlink(context, nr, args, a, b, c),
        linux::__NR_open => paths::open(context, nr, args, 0),
        linux::__NR_dup2 if [a as i32, b as i32].contains(&wire::descriptor()) => {
            Outcome::Done(err(errno::EBADF))
        }
        _ => return None,
    })
}
