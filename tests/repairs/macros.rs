//! The macros of the program flush and fence.
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn main() {
    let pm = pm::pool();
    pm[0].word[0] = 1;
    flush!(pm[0].word[0]);
    fence!();
    pm[0].word[0] = 2;
    // repair: flush!(pm[0].word[0]);
    pm[1].word[0] = 1;
    flush!(pm[1].word[0]);
    fence!();
}
