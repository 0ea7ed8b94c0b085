//! What the Rust programs share: a pool, and stores, flushes and fences as macros, so that the line of each
//! instruction is the line of the program that uses it. Variants are those of `pm.h`.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;

/// One cache line.
#[repr(C, align(64))]
pub struct Line {
    pub word: [u64; 8],
}

const POOL_LINES: usize = 1024;

unsafe extern "C" {
    fn mmap(addr: *mut u8, len: usize, prot: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
}

/// Maps the file named by the first argument, made if need be.
pub fn pool() -> &'static mut [Line] {
    const READ_WRITE: i32 = 3;
    const SHARED: i32 = 1;
    let path = std::env::args().nth(1).expect("the path of the pool");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = options.open(path).expect("the pool can be opened");
    let size = POOL_LINES * size_of::<Line>();
    file.set_len(size as u64).expect("the pool can be sized");
    let fd = file.as_raw_fd();
    // SAFETY: a fresh mapping of the size of the slice, which nothing else refers to.
    unsafe {
        let map = mmap(std::ptr::null_mut(), size, READ_WRITE, SHARED, fd, 0);
        assert!(map.addr() != usize::MAX, "the pool can be mapped");
        std::slice::from_raw_parts_mut(map.cast(), POOL_LINES)
    }
}

#[collapse_debuginfo(yes)]
macro_rules! store {
    ($place:expr, $value:expr) => {
        // SAFETY: the place is borrowed for the store.
        unsafe { (&raw mut $place).write_volatile($value) }
    };
}

#[collapse_debuginfo(yes)]
macro_rules! flush {
    ($place:expr) => {
        if cfg!(variant = "clflush") {
            // SAFETY: flushing changes no memory.
            unsafe { std::arch::asm!("clflush [{}]", in(reg) &raw const $place, options(nostack)) }
        } else if cfg!(any(variant = "clflushopt", no_clwb)) {
            // SAFETY: flushing changes no memory.
            unsafe { std::arch::asm!("clflushopt [{}]", in(reg) &raw const $place, options(nostack)) }
        } else {
            // SAFETY: flushing changes no memory.
            unsafe { std::arch::asm!("clwb [{}]", in(reg) &raw const $place, options(nostack)) }
        }
    };
}

#[collapse_debuginfo(yes)]
macro_rules! fence {
    () => {
        if !cfg!(variant = "clflush") {
            // SAFETY: a fence changes no memory.
            unsafe { std::arch::asm!("sfence", options(nostack)) }
        }
    };
}
