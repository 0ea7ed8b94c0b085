//! The last store of the program is flushed, and nothing waits for it.
// variants: clwb clflushopt
#[macro_use]
#[path = "../pm.rs"]
mod pm;

unsafe extern "C" {
    safe fn _exit(status: i32) -> !;
}

fn main() {
    let pool = pm::pool();
    store!(pool[0].word[0], 1);
    flush!(pool[0]);
    fence!();
    store!(pool[1].word[0], 2);
    flush!(pool[1]); // expect: missing-fence
    _exit(0);
}
