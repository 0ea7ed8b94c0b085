//! A boxed copy is flushed in addition to the original.
// variants: clwb clflushopt clflush
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn main() {
    let pool = pm::pool();
    let copy = Box::new(7_u64);
    flush!(*copy); // expect: flush-volatile
    fence!();
    store!(pool[0].word[0], *copy);
    flush!(pool[0]);
    fence!();
}
