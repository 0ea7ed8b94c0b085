//! A store through a raw pointer, in an unsafe block.
#[macro_use]
#[path = "../pm.rs"]
mod pm;

/// Flushes the line of a byte.
fn flush(from: *const u8) {
    // SAFETY: the line is mapped.
    let line = unsafe { &*from };
    flush!(*line);
}

fn main() {
    let pm = pm::pool();
    let word = &raw mut pm[0].word[0];
    flush(word.cast());
    // SAFETY: the pool is mapped.
    unsafe {
        *word = 7;
        // repair: flush(word.cast());
    }
    pm[1].word[0] = 1;
    flush((&raw const pm[1].word[0]).cast());
    fence!();
}
