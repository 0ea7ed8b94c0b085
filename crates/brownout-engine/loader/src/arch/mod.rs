//! The start code and the memory routines of each architecture.

#[cfg(target_arch = "x86_64")]
mod x86_64;
