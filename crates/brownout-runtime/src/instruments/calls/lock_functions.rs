//! Where the code of watched functions is that only acquire or release a lock.
//!
//! Such a lock is known by its function, so that its atomic instructions need not be looked at ([`crate::instruments::locks`]). That
//! leaves out most of them: programs mostly use mutexes of the C library.
//!
//! What it can miss: parts of these functions that are functions of their own, such as what waits for a mutex. Their
//! instructions are looked at, and the same lock is then known twice.

use crate::lock::Lock;
use alloc::vec::Vec;

/// The first address of each function, and the one after its last.
static BODIES: Lock<Vec<(u64, u64)>> = Lock::new(Vec::new());

/// The code of a function is here.
pub fn add(start: u64, size: u64) {
    let body = (start, start.saturating_add(size));
    let mut bodies = BODIES.lock();
    if size != 0 && !bodies.contains(&body) {
        bodies.push(body);
    }
}

/// The code in a range is gone.
pub fn forget(start: u64, end: u64) {
    let mut bodies = BODIES.lock();
    bodies.retain(|&(first, after)| after <= start || end <= first);
}

/// Whether the instruction at `pc` belongs to such a function.
pub fn hold(pc: u64) -> bool {
    let bodies = BODIES.lock();
    bodies
        .iter()
        .any(|&(start, end)| (start..end).contains(&pc))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_of_a_function_is_found_until_its_code_is_gone() {
        let start = 0x5eed_0000_1000;
        add(start, 0x40);
        add(start, 0x40);
        assert!(hold(start) && hold(start + 0x3f));
        assert!(!hold(start - 1) && !hold(start + 0x40));
        forget(start + 0x40, start + 0x80);
        assert!(hold(start));
        forget(start - 0x1000, start + 1);
        assert!(!hold(start + 1));
    }

    #[test]
    fn a_function_of_unknown_size_holds_nothing() {
        let start = 0x5eed_0000_2000;
        add(start, 0);
        assert!(!hold(start));
    }
}
