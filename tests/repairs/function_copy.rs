//! A function serves volatile and persistent memory: it is copied for the call with persistent memory.
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

#[inline(never)]
fn put(table: &mut [u64; 8], key: u64) {
    let slot = (key % 5) as usize;
    table[slot] += key;
}
// repair: fn put_persistent(table: &mut [u64; 8], key: u64) {
// repair:     let slot = (key % 5) as usize;
// repair:     table[slot] += key;
// repair:     flush((&raw const table[slot]).cast(), 8);
// repair: }

fn main() {
    let pm = pm::pool();
    let mut cache = [0; 8];
    flush((&raw const pm[0]).cast(), 64);
    fence!();
    for key in 0..50 {
        put(&mut cache, key);
    }
    put(&mut pm[0].word, 7); // broken
    // repair: put_persistent(&mut pm[0].word, 7);
    fence!();
    assert!(cache[0] > 0);
}
