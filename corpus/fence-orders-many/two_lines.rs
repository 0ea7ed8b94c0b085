//! Two lines are on their way when the fence comes.
// variants: clwb clflushopt
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn main() {
    let pool = pm::pool();
    store!(pool[0].word[0], 1);
    flush!(pool[0]);
    store!(pool[1].word[0], 2);
    flush!(pool[1]);
    fence!(); // expect: fence-orders-many
}
