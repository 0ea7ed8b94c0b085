//! The head of a list is durable before the node that it points to.
// variants: clwb clflushopt
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn main() {
    let pool = pm::pool();
    let node = &raw const pool[1] as u64;
    store!(pool[1].word[0], 7);
    store!(pool[1].word[1], pool[0].word[0]);
    store!(pool[0].word[0], node); // expect: unpersisted-target
    flush!(pool[0]);
    fence!();
    flush!(pool[1]); // expect: flush-covers-many
    fence!();
}
