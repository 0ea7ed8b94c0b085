//! The later store is durable before the earlier one is even flushed.
// variants: clwb clflushopt
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn main() {
    let pool = pm::pool();
    store!(pool[0].word[0], 1); // expect: delayed-persist
    store!(pool[1].word[0], 2);
    flush!(pool[1]);
    fence!();
    flush!(pool[0]);
    fence!();
}
