//! The translator's part that knows x86-64.

pub mod arch_prctl;
pub mod cpu;
pub mod cpu_features;
pub mod fetch_fault;
pub mod gate;
pub mod guarded;
pub mod kernel_entry;
pub mod signal_frame;
pub mod signal_handler;
pub mod syscalls;
pub mod thread_pointer;
pub mod translate;
