//! A store through a raw pointer.
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn main() {
    let pm = pm::pool();
    let word = &raw mut pm[0].word[0];
    flush!(pm[0].word[0]);
    // SAFETY: the pool is mapped.
    unsafe {
        *word = 7;
        // repair: flush!(*word);
    }
    pm[1].word[0] = 1;
    flush!(pm[1].word[0]);
    fence!();
}
