//! `arch_prctl`: the target's GS base, which is not in the CPU.

use crate::hooks;
use crate::sys::{err, errno, linux};
use crate::translator::context::Context;
use crate::translator::syscall::{Outcome, native};

/// The target's `arch_prctl`.
pub fn serve(context: &mut Context, args: [u64; 6]) -> Outcome {
    const ARCH_SET_GS: u64 = 0x1001;
    const ARCH_GET_GS: u64 = 0x1004;
    Outcome::Done(match args[0] {
        ARCH_SET_GS => {
            context.cpu.target_gs = args[1];
            0
        }
        ARCH_GET_GS => match hooks::write_value(context, args[1], &{ context.cpu.target_gs }) {
            Ok(()) => 0,
            Err(_) => err(errno::EFAULT),
        },
        _ => return native(u64::from(linux::__NR_arch_prctl), &args),
    })
}
