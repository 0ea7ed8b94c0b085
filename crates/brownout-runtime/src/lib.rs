//! The part of brownout that lives inside the target: a same-ISA dynamic binary translator, and the
//! instruments that observe the target through it.
//!
//! # Rules of living here
//!
//! 1. Freestanding: no libc and no thread-local storage. The thread's [`translator::context::Context`] is behind a
//!    segment register that the target does not get; the thread pointer is the target's at all times, so neither
//!    fork nor signals nor threads need a switch.
//! 2. Compiled code uses only the registers that the gate saves when it enters Rust (see `arch`).
//! 3. The target's stack is never touched, except for what the target's own instruction would have written and
//!    the dead slot below it.
//! 4. Memory of the target is read and written through [`target_memory`], which survives bad pointers.
//! 5. A lock is never held while waiting for something that the target controls.
//! 6. A signal handler prints nothing and allocates nothing.
//!
//! # Layers
//!
//! [`arch`] holds everything that knows a processor. [`translator`] runs the target and calls the [`hooks`] of the
//! [`instruments`] without naming one. [`wire`] carries events to the recorder.
#![cfg_attr(not(test), no_std)]
extern crate alloc;

pub mod address_map;
pub mod arch;
pub mod fatal;
pub mod hooks;
pub mod instruments;
pub mod lock;
pub mod memory;
pub mod plain_data;
pub mod sys;
pub mod target_memory;
pub mod translator;
pub mod wire;
