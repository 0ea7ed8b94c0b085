//! A word is stored twice before it is flushed.
// variants: clwb clflushopt clflush
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn main() {
    let pool = pm::pool();
    store!(pool[0].word[0], 1); // expect: dirty-overwrite
    store!(pool[0].word[0], 2);
    flush!(pool[0]);
    fence!();
}
