//! A word is changed after it was made durable, and the change is never flushed.
// variants: clwb clflushopt clflush
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn main() {
    let pool = pm::pool();
    store!(pool[0].word[0], 1);
    flush!(pool[0]);
    fence!();
    store!(pool[0].word[0], 2); // expect: missing-flush
}
