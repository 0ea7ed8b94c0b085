//! Builds the loader: the freestanding executable that is embedded in the host library.
//!
//! It is a package of its own because it needs other flags than anything else in the workspace, and it is built from
//! here so that `cargo install` gives one binary that has everything. Its manifest is written here, because cargo leaves
//! folders with a manifest out of published packages, and because the runtime's sources are where cargo has put them:
//! in the workspace, or among the packages it has downloaded.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let sources = variable("CARGO_MANIFEST_DIR").join("loader");
    let runtime = variable("DEP_BROWNOUT_RUNTIME_ROOT");
    let ring = variable("DEP_BROWNOUT_RUNTIME_RING");
    for folder in [&sources, &runtime, &ring] {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    let out = variable("OUT_DIR");
    let package = out.join("loader");
    fs::create_dir_all(&package).expect("OUT_DIR can be written");
    write(
        &package.join("Cargo.toml"),
        &manifest(&sources, &runtime, &ring),
    );
    let versions =
        fs::read_to_string(sources.join("Cargo.lock")).expect("the loader has a lock file");
    write(&package.join("Cargo.lock"), &versions);
    let built = build(
        &package,
        &sources.join("layout.ld"),
        &out.join("loader-target"),
    );
    fs::copy(&built, out.join("brownout-loader")).expect("the loader was built");
}

/// The loader's manifest.
fn manifest(sources: &Path, runtime: &Path, ring: &Path) -> String {
    let mut text = format!(
        r#"[package]
name = "brownout-loader"
version = "0.1.0"
edition = "2024"
publish = false

[[bin]]
name = "brownout-loader"
path = {main:?}
test = false

[dependencies]
brownout-runtime = {{ path = {runtime:?} }}

[profile.release]
panic = "abort"
opt-level = 3
lto = "fat"
codegen-units = 1
debug = false
strip = true

[workspace]
"#,
        main = sources.join("src/main.rs"),
    );
    // A published runtime names a version of `brownout-ring`, not its folder.
    if runtime.join("Cargo.toml.orig").exists() {
        text.push_str(&format!(
            "\n[patch.crates-io]\nbrownout-ring = {{ path = {ring:?} }}\n"
        ));
    }
    text
}

/// Compiles the loader; where the executable is.
fn build(package: &Path, layout: &Path, target_dir: &Path) -> PathBuf {
    let flags = [
        "-Crelocation-model=pic".to_string(),
        "-Clink-arg=-nostartfiles".to_string(),
        "-Clink-arg=-nostdlib".to_string(),
        "-Clink-arg=-static".to_string(),
        "-Clink-arg=-no-pie".to_string(),
        "-Clink-arg=-Wl,--build-id=none".to_string(),
        format!("-Clink-arg=-Wl,-T,{}", layout.display()),
    ];
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let target = format!("{architecture}-unknown-linux-gnu");
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--target", &target, "--manifest-path"])
        .arg(package.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .status()
        .expect("cargo can be started");
    assert!(status.success(), "building brownout's loader failed");
    target_dir.join(target).join("release/brownout-loader")
}

/// A variable that cargo, or the build script of a dependency, sets to a path.
fn variable(name: &str) -> PathBuf {
    env::var_os(name)
        .unwrap_or_else(|| panic!("{name} is not set; build this crate with cargo"))
        .into()
}

/// Writes a file unless it has that content already, so that cargo does not take it for changed.
fn write(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    fs::write(path, text).expect("OUT_DIR can be written");
}
