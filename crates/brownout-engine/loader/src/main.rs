//! The executable that the target's process starts as. Freestanding: no libc, no start files.
#![no_std]
#![no_main]

mod arch;

use brownout_runtime::memory::{self, HEAP, Heap};
use core::alloc::{GlobalAlloc, Layout};

struct Global;

// SAFETY: forwards to the runtime's allocator, which meets the contract.
unsafe impl GlobalAlloc for Global {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { <Heap as GlobalAlloc>::alloc(&HEAP, layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { <Heap as GlobalAlloc>::dealloc(&HEAP, ptr, layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { <Heap as GlobalAlloc>::alloc_zeroed(&HEAP, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { <Heap as GlobalAlloc>::realloc(&HEAP, ptr, layout, size) }
    }
}

#[global_allocator]
static GLOBAL: Global = Global;

unsafe extern "C" {
    /// In `layout.ld`.
    static text_end: u8;
}

extern "C" fn begin(stack: *mut u64) -> ! {
    // SAFETY: this executable has that layout.
    unsafe { memory::set_text_end(&raw const text_end as u64) };
    // SAFETY: called once, by the first instruction, with the initial stack pointer.
    unsafe { brownout_runtime::translator::start::start(stack) }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    brownout_runtime::fatal::fault(format_args!("{info}"))
}
