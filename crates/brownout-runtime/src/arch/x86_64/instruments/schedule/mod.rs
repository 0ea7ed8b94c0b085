//! Schedules of threads: what is counted, and system calls that only x86-64 has.

pub mod code;
pub mod syscalls;
