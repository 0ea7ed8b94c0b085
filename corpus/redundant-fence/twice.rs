//! A second fence with nothing to wait for.
// variants: clwb clflushopt
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn main() {
    let pool = pm::pool();
    store!(pool[0].word[0], 1);
    flush!(pool[0]);
    fence!();
    fence!(); // expect: redundant-fence
}
