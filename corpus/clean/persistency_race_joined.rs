//! The store is durable before the thread is created that reads it.
// check: --loads
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn main() {
    let pool = pm::pool();
    store!(pool[0].word[0], 7);
    flush!(pool[0]);
    fence!();
    let word = (&raw const pool[0].word[0]).expose_provenance();
    let reader = move || unsafe { std::ptr::with_exposed_provenance::<u64>(word).read_volatile() };
    std::thread::spawn(reader).join().unwrap();
}
