//! Passes the location of this crate's sources to the build scripts that depend on it.
//!
//! The engine's build script compiles the runtime, and with it this crate, a second time for the target's process.

use std::env;

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::metadata=root={root}");
}
