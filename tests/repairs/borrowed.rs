//! A store through a mutable reference, in safe code.
#[macro_use]
#[path = "../pm.rs"]
mod pm;

/// Flushes the line of a byte.
fn flush(from: *const u8) {
    // SAFETY: the line is mapped.
    let line = unsafe { &*from };
    flush!(*line);
}

#[inline(never)]
fn bump(word: &mut u64) -> u64 {
    *word += 7;
    // repair: flush((&raw const *word).cast());
    *word
}

fn main() {
    let pm = pm::pool();
    flush((&raw const pm[0].word[0]).cast());
    println!("{}", bump(&mut pm[0].word[0]));
    pm[1].word[0] = 1;
    flush((&raw const pm[1].word[0]).cast());
    fence!();
}
