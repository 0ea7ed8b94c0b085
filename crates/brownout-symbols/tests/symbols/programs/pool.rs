//! Rust: a generic method, inlined into a caller in a module. A test finds the address by the label.
#![allow(named_asm_labels)]

use std::arch::asm;
use std::hint::black_box;

struct Map<T>(T);

impl<T: Copy> Map<T> {
    #[inline(always)]
    fn insert(&mut self, value: T) {
        unsafe { asm!(".globl in_method", "in_method:", options(nomem, nostack)) };
        self.0 = value; /* line in_method */
    }
}

mod pool {
    #[inline(never)]
    pub fn transact(map: &mut super::Map<u64>) {
        map.insert(7); /* line in_transact */
    }
}

fn main() {
    let mut map = Map(0);
    pool::transact(black_box(&mut map));
    black_box(map.0);
}
