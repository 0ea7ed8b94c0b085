//! An atomic count is what orders the flush.
// variants: clwb clflushopt
#[macro_use]
#[path = "../pm.rs"]
mod pm;

use std::sync::atomic::{AtomicU64, Ordering};

static CHANGES: AtomicU64 = AtomicU64::new(0);

fn main() {
    let pool = pm::pool();
    store!(pool[1].word[0], 1);
    flush!(pool[1]);
    fence!();
    store!(pool[0].word[0], 1);
    flush!(pool[0]); // expect: accidental-fence
    CHANGES.fetch_add(1, Ordering::Relaxed);
}
