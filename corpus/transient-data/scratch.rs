//! A scratch line next to the data is never flushed.
// variants: clwb clflushopt clflush
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn main() {
    let pool = pm::pool();
    store!(pool[1].word[0], 41); // expect: transient-data
    store!(pool[0].word[0], pool[1].word[0] + 1);
    flush!(pool[0]);
    fence!();
}
