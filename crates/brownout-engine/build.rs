//! Builds the loader: the freestanding executable that is embedded in the host library.
//!
//! It is a package of its own because it needs other flags than anything else in the workspace, and it
//! is built from here so that `cargo install` gives one binary that has everything.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let loader = manifest.join("loader");
    for watched in ["loader", "../brownout-runtime", "../brownout-ring"] {
        println!(
            "cargo:rerun-if-changed={}",
            manifest.join(watched).display()
        );
    }
    let target_dir = out.join("loader-target");
    let script = loader.join("layout.ld");
    let flags = [
        "-Crelocation-model=pic".to_string(),
        "-Clink-arg=-nostartfiles".to_string(),
        "-Clink-arg=-nostdlib".to_string(),
        "-Clink-arg=-static".to_string(),
        "-Clink-arg=-no-pie".to_string(),
        "-Clink-arg=-Wl,--build-id=none".to_string(),
        format!("-Clink-arg=-Wl,-T,{}", script.display()),
    ];
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args([
            "build",
            "--release",
            "--target",
            "x86_64-unknown-linux-gnu",
            "--manifest-path",
        ])
        .arg(loader.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET")
        .env_remove("RUSTC_WORKSPACE_WRAPPER");
    let status = cargo.status().expect("cargo can be started");
    assert!(status.success(), "building brownout's loader failed");
    let built = target_dir.join("x86_64-unknown-linux-gnu/release/brownout-loader");
    fs::copy(&built, out.join("brownout-loader")).expect("the loader was built");
}
