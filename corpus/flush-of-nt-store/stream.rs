//! A streamed word is flushed.
// variants: clwb clflushopt clflush
#[macro_use]
#[path = "../pm.rs"]
mod pm;

use std::arch::x86_64::{_mm_sfence, _mm_stream_si64};

fn main() {
    let pool = pm::pool();
    // SAFETY: the place is borrowed for the store, and a fence follows.
    unsafe { _mm_stream_si64((&raw mut pool[0].word[0]).cast(), 1) };
    flush!(pool[0]); // expect: flush-of-nt-store
    // SAFETY: every x86-64 processor has it.
    unsafe { _mm_sfence() };
    store!(pool[1].word[0], 1);
    flush!(pool[1]);
    fence!();
}
