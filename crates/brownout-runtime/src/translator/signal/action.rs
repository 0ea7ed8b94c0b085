//! The actions that the target has set for signals.

use crate::arch::translator::gate;
use crate::arch::translator::signal_handler;
use crate::hooks;
use crate::lock::Lock;
use crate::sys;
use crate::sys::{Raw, errno, linux};
use crate::target_memory;
use crate::translator::context::Context;
use crate::translator::signal::{Info, NEEDED, bit};

pub const SIG_DFL: u64 = 0;
pub const SIG_IGN: u64 = 1;

/// `struct sigaction` as the kernel has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Action {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

crate::plain_data!(Action {
    handler: u64,
    flags: u64,
    restorer: u64,
    mask: u64,
});

const SA_RESTORER: u64 = 0x0400_0000;
pub const SA_ONSTACK: u64 = linux::SA_ONSTACK as u64;
pub const SA_NODEFER: u64 = linux::SA_NODEFER as u64;
pub const SA_RESETHAND: u64 = linux::SA_RESETHAND as u64;
const KERNEL_FLAGS: u64 = (linux::SA_RESTART | linux::SA_NOCLDSTOP | linux::SA_NOCLDWAIT) as u64;

/// The actions of one process.
pub struct Actions(pub Lock<[Action; 65]>);

impl Actions {
    pub const fn new() -> Actions {
        Actions(Lock::new(
            [Action {
                handler: 0,
                flags: 0,
                restorer: 0,
                mask: 0,
            }; 65],
        ))
    }

    pub fn get(&self, signal: u32) -> Action {
        self.0.lock()[signal as usize]
    }

    /// Resets a signal to its default action, for `SA_RESETHAND`.
    pub fn reset(&self, signal: u32) {
        self.0.lock()[signal as usize].handler = SIG_DFL;
        if bit(signal) & NEEDED == 0 {
            set_default(signal);
        }
    }

    /// Takes the dispositions that the process inherited.
    pub fn inherit(&self) {
        let mut actions = self.0.lock();
        for signal in 1..=64u32 {
            let mut old = Action::default();
            // SAFETY: the kernel writes one action.
            unsafe { crate::sys!(linux::__NR_rt_sigaction, signal, 0, &raw mut old, 8) };
            actions[signal as usize] = old;
        }
    }

    pub fn copy(&self) -> Actions {
        Actions(Lock::new(*self.0.lock()))
    }
}

impl Default for Actions {
    fn default() -> Self {
        Actions::new()
    }
}

/// Installs the runtime's handler for a signal.
pub fn install(signal: u32, flags: u64) {
    let action = Action {
        handler: signal_handler::entry(),
        flags: linux::SA_SIGINFO as u64 | SA_ONSTACK | SA_RESTORER | flags & KERNEL_FLAGS,
        restorer: gate::restorer(),
        // While the handler runs, only the signals that the engine itself may raise are unblocked.
        mask: !NEEDED,
    };
    set(signal, &action);
}

fn set(signal: u32, action: &Action) -> Raw {
    // SAFETY: the handler is the runtime's, or none.
    unsafe { crate::sys!(linux::__NR_rt_sigaction, signal, &raw const *action, 0, 8) }
}

/// Gives a signal its default action in the kernel.
pub fn set_default(signal: u32) {
    set(signal, &Action::default());
}

/// The target's `rt_sigaction`.
pub fn set_action(context: &mut Context, signal: u64, new: u64, old: u64, size: u64) -> Raw {
    if size != 8 || signal == 0 || signal > 64 {
        return sys::err(errno::EINVAL);
    }
    let signal = signal as u32;
    let actions = context.actions();
    let mut table = actions.0.lock();
    let before = table[signal as usize];
    if new != 0 {
        if matches!(signal, linux::SIGKILL | linux::SIGSTOP) {
            return sys::err(errno::EINVAL);
        }
        let Ok(mut action) = target_memory::read::<Action>(new) else {
            return sys::err(errno::EFAULT);
        };
        action.mask &= !(bit(linux::SIGKILL) | bit(linux::SIGSTOP));
        table[signal as usize] = action;
        if action.handler > SIG_IGN {
            install(signal, action.flags);
        } else if bit(signal) & NEEDED == 0 {
            let plain = Action {
                flags: action.flags & KERNEL_FLAGS,
                mask: 0,
                restorer: 0,
                ..action
            };
            set(signal, &plain);
        }
    }
    drop(table);
    if old != 0 && hooks::write_value(context, old, &before).is_err() {
        return sys::err(errno::EFAULT);
    }
    0
}

/// Whether the information says that an instruction of this thread raised the signal.
pub fn is_synchronous(signal: u32, info: &Info) -> bool {
    bit(signal) & crate::translator::signal::SYNCHRONOUS != 0
        && info.code() > 0
        && signal != linux::SIGSYS
}

/// Makes the kernel ignore a signal, so that an executed program inherits that.
pub fn ignore(signal: u32) {
    set(
        signal,
        &Action {
            handler: SIG_IGN,
            ..Action::default()
        },
    );
}
