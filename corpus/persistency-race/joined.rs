//! The store is made durable when the thread is joined that has read it.
// check: --loads
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn main() {
    let pool = pm::pool();
    store!(pool[0].word[0], 7); // expect: persistency-race
    let word = (&raw const pool[0].word[0]).expose_provenance();
    let reader = move || unsafe { std::ptr::with_exposed_provenance::<u64>(word).read_volatile() };
    std::thread::spawn(reader).join().unwrap();
    flush!(pool[0]);
    fence!();
}
