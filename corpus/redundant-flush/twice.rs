//! A line is flushed twice for one store.
// variants: clwb clflushopt clflush
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn main() {
    let pool = pm::pool();
    store!(pool[0].word[0], 1);
    flush!(pool[0]);
    fence!();
    flush!(pool[0]); // expect: redundant-flush
    fence!();
}
