//! The last store of a word is not flushed; the program has a function for that.
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn persist(from: *const u8, len: usize) {
    let start = from as usize & !63;
    for line in (start..from as usize + len).step_by(64) {
        // SAFETY: the line is mapped.
        let line = unsafe { &*(line as *const u8) };
        flush!(*line);
    }
    fence!();
}

fn main() {
    let pm = pm::pool();
    pm[0].word[0] = 1;
    persist((&raw const pm[0].word[0]).cast(), 8);
    pm[0].word[0] = 2;
    // repair: persist((&raw const pm[0].word[0]).cast(), 8);
}
