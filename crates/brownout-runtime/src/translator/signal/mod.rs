//! Signals: the target sees them exactly as it would natively.
//!
//! The kernel delivers to the runtime's handler (`arch`: `signal_handler`), on a stack of the runtime's. A thread in
//! generated code is brought to an instruction boundary of the target, by single steps if necessary; a thread in
//! Rust code notes the signal and delivers it on its way out. Delivery (`arch`: `signal_frame`) builds the frame that
//! the kernel would have built and continues at the target's handler. While a signal waits, the kernel keeps the
//! others: queueing, priorities and counts stay the kernel's.
//!
//! Three signals stay unblocked and handled at all times because the engine needs them: SIGSEGV,
//! SIGBUS and SIGTRAP. What the target set for them is emulated.

pub(crate) mod action;

pub use crate::arch::translator::signal_frame::{
    deliver, find_state_components, settle, sigreturn,
};
pub use crate::arch::translator::signal_handler::install_for_thread;
pub use action::{Action, Actions, ignore, install, set_action};

use crate::sys::linux;
use crate::translator::context::Context;

pub const SIGTRAP: u32 = linux::SIGTRAP;
pub const SIGBUS: u32 = linux::SIGBUS;
pub const SIGSEGV: u32 = linux::SIGSEGV;

/// A set of signals as the kernel writes it.
pub const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// The name of a signal that an instruction can raise, for messages.
pub fn name(signal: u32) -> &'static str {
    match signal {
        SIGSEGV => "SIGSEGV",
        SIGBUS => "SIGBUS",
        SIGTRAP => "SIGTRAP",
        linux::SIGILL => "SIGILL",
        linux::SIGFPE => "SIGFPE",
        linux::SIGSYS => "SIGSYS",
        _ => "a signal",
    }
}

/// Signals that the engine keeps unblocked.
pub const NEEDED: u64 = bit(SIGSEGV) | bit(SIGBUS) | bit(SIGTRAP);
/// Signals that an instruction raises; they cannot wait.
const SYNCHRONOUS: u64 = NEEDED | bit(linux::SIGILL) | bit(linux::SIGFPE) | bit(linux::SIGSYS);

/// `siginfo_t`, uninterpreted: 128 bytes.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct Info(pub [u32; 32]);

crate::plain_data!(Info { 0: [u32; 32] });

impl Info {
    pub fn code(&self) -> i32 {
        self.0[2] as i32
    }

    /// The faulting address, for signals that have one.
    pub fn address(&self) -> u64 {
        u64::from(self.0[4]) | u64::from(self.0[5]) << 32
    }

    pub fn set_address(&mut self, address: u64) {
        self.0[4] = address as u32;
        self.0[5] = (address >> 32) as u32;
    }

    /// The information of a fault raised by the runtime on the target's behalf.
    pub fn fault(signal: u32, code: i32, address: u64) -> Info {
        let mut info = Info([0; 32]);
        info.0[0] = signal;
        info.0[2] = code as u32;
        info.set_address(address);
        info
    }
}

/// A signal on its way to the target.
#[derive(Clone, Copy)]
pub struct Pending {
    /// 0: none.
    pub signal: u32,
    pub info: Info,
    /// Trap number and error code for the frame.
    pub trap: [u64; 2],
    /// Raised by the target's own instruction.
    pub synchronous: bool,
}

impl Pending {
    /// Whether the fault was one of writing.
    pub fn is_write(&self) -> bool {
        crate::arch::translator::signal_frame::is_write_fault(self.trap)
    }

    pub const fn none() -> Pending {
        Pending {
            signal: 0,
            info: Info([0; 32]),
            trap: [0; 2],
            synchronous: false,
        }
    }
}

/// The target's alternate signal stack.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AltStack {
    pub start: u64,
    pub flags: u32,
    pub pad: u32,
    pub size: u64,
}

crate::plain_data!(AltStack {
    start: u64,
    flags: u32,
    pad: u32,
    size: u64,
});

impl AltStack {
    pub const fn disabled() -> AltStack {
        AltStack {
            start: 0,
            flags: linux::SS_DISABLE,
            pad: 0,
            size: 0,
        }
    }

    pub fn is_enabled(&self) -> bool {
        self.size != 0
    }

    /// Whether a stack pointer is on this stack.
    pub fn holds(&self, pointer: u64) -> bool {
        self.is_enabled() && pointer > self.start && pointer - self.start <= self.size
    }
}

/// Keeps a signal for later: what the kernel does for signals that are blocked.
pub(crate) fn hold(context: &mut Context, signal: u32, info: &Info) {
    let held = Pending {
        signal,
        info: *info,
        trap: [0; 2],
        synchronous: false,
    };
    if let Some(slot) = context
        .held
        .iter_mut()
        .find(|slot| slot.signal == 0 || slot.signal == signal)
    {
        *slot = held;
    }
}

/// Gives a signal that cannot be delivered now back to the kernel, which blocks it.
pub(crate) fn send_again(context: &Context, signal: u32, info: &Info) {
    let pid = crate::sys::getpid();
    // SAFETY: sends a signal to this thread; the kernel reads one `siginfo_t`.
    unsafe {
        let raw = crate::sys!(
            linux::__NR_rt_tgsigqueueinfo,
            pid,
            context.tid,
            signal,
            &raw const *info
        );
        if crate::sys::is_err(raw) {
            // The queue is full: a signal without details takes no room in it.
            crate::sys!(linux::__NR_tgkill, pid, context.tid, signal);
        }
    }
}

/// Makes a kept signal pending if the target does not block it any more.
pub fn take_held(context: &mut Context) -> bool {
    let mask = context.mask;
    let Some(slot) = context
        .held
        .iter_mut()
        .find(|slot| slot.signal != 0 && mask & bit(slot.signal) == 0)
    else {
        return false;
    };
    context.pending = *slot;
    *slot = Pending::none();
    context.pending_flag = 1;
    true
}

/// Sets the thread's mask in the kernel so that it acts like the target's mask.
pub fn apply_mask(mask: u64) {
    crate::sys::set_mask(mask & !NEEDED);
}

/// Asks the kernel for the default action of a signal, in this thread, now.
pub fn die(signal: u32, tid: u32) -> ! {
    action::set_default(signal);
    crate::sys::set_mask(!bit(signal));
    loop {
        // SAFETY: ends the process.
        unsafe { crate::sys!(linux::__NR_tgkill, crate::sys::getpid(), tid, signal) };
    }
}
