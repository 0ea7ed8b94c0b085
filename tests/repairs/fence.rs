//! A flush is not followed by a fence.
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn main() {
    let pm = pm::pool();
    pm[0].word[0] = 1;
    flush!(pm[0].word[0]);
    // repair: fence!();
}
