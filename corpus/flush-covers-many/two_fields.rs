//! Two fields share a line, so that one flush is enough: for this layout.
// variants: clwb clflushopt clflush
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn main() {
    let pool = pm::pool();
    store!(pool[0].word[0], 1);
    store!(pool[0].word[1], 2);
    flush!(pool[0]); // expect: flush-covers-many
    fence!();
}
