//! Every change is made durable.
// variants: clwb clflushopt clflush
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn main() {
    let pool = pm::pool();
    for value in 1..5 {
        store!(pool[0].word[0], value);
        flush!(pool[0]);
        fence!();
    }
}
