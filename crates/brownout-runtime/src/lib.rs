//! The part of brownout that lives inside the target: a same-ISA dynamic binary translator and the
//! instruments that ride on it.
//!
//! # Rules of living here
//!
//! 1. Freestanding: no libc, no TLS, no FS. The thread's [`context::Context`] is behind GS; the FS base
//!    is the program's at all times, so neither fork nor signals nor threads need a switch.
//! 2. No AVX and no x87. Compiled code uses legacy SSE only, which leaves the upper halves of vector
//!    registers alone; entering Rust saves XMM0–15 and nothing else, whatever state the CPU has.
//! 3. Never touch the program's stack, but for what the program's own instruction would have written
//!    and the dead slot below it.
//! 4. Memory of the program is read and written through [`guest`], which survives bad pointers.
//! 5. A lock is never held while waiting for anything the program controls.
//! 6. Nothing is printed and nothing is allocated in a signal handler.
//!
//! # Layers
//!
//! `gate` (assembly) ⇄ `dispatch` ⇄ { `translate` → `cache`, `syscall`, `signal`, `process` };
//! `pm` is the instrument that records persistent memory, `watch` that which records calls of functions;
//! `wire` carries their events out.
#![cfg_attr(not(test), no_std)]
extern crate alloc;

pub mod arch;
pub mod fatal;
pub mod instruments;
pub mod lock;
pub mod memory;
pub mod plain_data;
pub mod sys;
pub mod target_memory;
pub mod translator;
pub mod wire;
