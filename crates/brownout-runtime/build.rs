//! Tells the engine's build script, which compiles this crate a second time for the target's process, where the sources
//! of this crate and of `brownout-ring` are.

use std::env;

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let ring =
        env::var("DEP_BROWNOUT_RING_ROOT").expect("the build script of brownout-ring sets it");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::metadata=root={root}");
    println!("cargo::metadata=ring={ring}");
}
