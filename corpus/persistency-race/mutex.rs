//! The guard is dropped before the store is durable.
// check: --loads
#[macro_use]
#[path = "../pm.rs"]
mod pm;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Whose turn it is. Nothing that brownout knows orders the threads by it.
static TURN: AtomicU32 = AtomicU32::new(0);

fn await_turn(number: u32) {
    while TURN.load(Ordering::Relaxed) != number {
        std::thread::yield_now();
    }
}

fn main() {
    let pool = Mutex::new(pm::pool());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            await_turn(0);
            let pool = pool.lock().unwrap();
            // SAFETY: the word is borrowed for the load.
            unsafe { (&raw const pool[0].word[0]).read_volatile() };
            TURN.store(1, Ordering::Relaxed);
        });
        scope.spawn(|| {
            await_turn(1);
            let mut pool = pool.lock().unwrap();
            store!(pool[0].word[0], 7); // expect: persistency-race
            let line = &raw const pool[0];
            drop(pool);
            flush!(*line);
            fence!();
        });
    });
}
