//! A loop fills a slice: it is flushed once, after the loop.
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn flush(from: *const u8, len: usize) {
    let start = from as usize & !63;
    for line in (start..from as usize + len).step_by(64) {
        // SAFETY: the line is mapped.
        let line = unsafe { &*(line as *const u8) };
        flush!(*line);
    }
}

fn fill(words: &mut [u64], count: usize) {
    for i in 0..count {
        words[i] = i as u64 + 1;
    }
    // repair: flush(words.as_ptr().cast(), count * 8);
}

fn main() {
    let pm = pm::pool();
    flush((&raw const pm[0]).cast(), 64);
    fence!();
    fill(&mut pm[0].word, 8);
    fence!();
}
