//! `cargo xtask architecture`: what is not under an `arch/` folder compiles without x86-64.
//!
//! In a copy of the checkout, the skeletons under `tests/architecture/` take the place of `arch/x86_64` in each crate that
//! has one. A skeleton declares what neutral code uses, for an imaginary processor with other registers; another architecture
//! begins by filling it in. The crates are then checked without the decoder of x86-64, and the runtime once more with
//! the kernel's types and system-call numbers of AArch64. No second toolchain is needed.
//!
//! What it can miss: neutral code that compiles and relies on how x86-64 behaves. The loader is left out: all that it has
//! beside its assembly is the call of the runtime.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::args::Args;
use crate::checkout_copy::{copy_checkout, write_file};
use crate::shell::{cargo, root, step, target_dir};

/// The crates with code for one architecture. Each has a skeleton of the same name.
const CRATES: [&str; 6] = [
    "brownout-engine",
    "brownout-fix",
    "brownout-recovery",
    "brownout-runtime",
    "brownout-symbols",
    "brownout-symex",
];
const SKELETONS: &str = "tests/architecture";
const ARCHITECTURE: &str = "x86_64";
/// What decodes and encodes instructions of x86-64.
const DECODER: &str = "iced-x86";

/// The crate with the kernel's types, and the architecture whose types the runtime is checked with.
const KERNEL_TYPES: &str = "linux-raw-sys";
const OTHER_ARCHITECTURE: &str = "aarch64";

pub fn run(args: Args) -> Result<()> {
    args.finish()?;
    let copy = target_dir()?.join("architecture");
    copy_checkout(&copy)?;
    for name in CRATES {
        replace_architecture(&copy, name)?;
    }
    let build_script = read(&root().join(SKELETONS).join("engine_build.rs"))?;
    let of_engine = copy.join("crates/brownout-engine/build.rs");
    write_file(&of_engine, build_script.as_bytes())?;
    edit(&copy.join("Cargo.toml"), |manifest| {
        // What only x86-64 uses is unused now.
        manifest.replace(
            "[workspace.lints.rust]\n",
            "[workspace.lints.rust]\nwarnings = \"allow\"\n",
        )
    })?;
    let mut check = cargo(&["check", "--lib"])?;
    for name in CRATES {
        check.args(["--package", name]);
    }
    step(check.current_dir(&copy))?;
    check_with_other_kernel_types(&copy)?;
    println!(
        "architecture: {} compile without {ARCHITECTURE}",
        CRATES.join(", ")
    );
    Ok(())
}

/// Puts the skeleton of a crate in the place of its code for x86-64.
fn replace_architecture(copy: &Path, name: &str) -> Result<()> {
    let package = copy.join("crates").join(name);
    let folder = package.join("src/arch").join(ARCHITECTURE);
    let removed = [
        fs::remove_file(folder.with_extension("rs")).is_ok(),
        // An earlier use of the copy may have left an empty folder beside a file.
        fs::remove_dir_all(&folder).is_ok(),
    ];
    if !removed.contains(&true) {
        bail!("{name} has no code for {ARCHITECTURE}");
    }
    for entry in fs::read_dir(root().join(SKELETONS).join(name))? {
        let entry = entry?;
        write_file(&folder.join(entry.file_name()), &fs::read(entry.path())?)?;
    }
    edit(&package.join("Cargo.toml"), without_decoder)
}

/// A manifest without the lines that name the decoder.
fn without_decoder(manifest: &str) -> String {
    let is_kept = |line: &&str| !line.starts_with(DECODER);
    let lines = manifest.lines().filter(is_kept);
    lines.map(|line| format!("{line}\n")).collect()
}

/// Checks the runtime against what the kernel has on another architecture.
fn check_with_other_kernel_types(copy: &Path) -> Result<()> {
    let types = copy.join(KERNEL_TYPES);
    copy_folder(&sources_of_kernel_types()?, &types)?;
    edit(&types.join("src/lib.rs"), as_on_other_architecture)?;
    let patch = format!("patch.crates-io.{KERNEL_TYPES}.path = {types:?}");
    // All that is needed is there: the sources were just copied.
    let words = [
        "check",
        "--offline",
        "--lib",
        "--package",
        "brownout-runtime",
    ];
    step(cargo(&words)?.args(["--config", &patch]).current_dir(copy))
}

/// Where cargo has put the sources of the kernel's types.
fn sources_of_kernel_types() -> Result<PathBuf> {
    let output = cargo(&["metadata", "--format-version", "1"])?.output()?;
    if !output.status.success() {
        bail!("cargo metadata failed");
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array();
    let package = packages
        .into_iter()
        .flatten()
        .find(|package| package["name"] == KERNEL_TYPES);
    package
        .and_then(|package| Path::new(package["manifest_path"].as_str()?).parent())
        .map(Path::to_owned)
        .with_context(|| format!("nothing depends on {KERNEL_TYPES}"))
}

/// Exchanges the two architectures in the conditions that select modules.
fn as_on_other_architecture(library: &str) -> String {
    let [this, other] =
        [ARCHITECTURE, OTHER_ARCHITECTURE].map(|name| format!("target_arch = \"{name}\""));
    let parts = library.split(&this);
    let exchanged: Vec<String> = parts.map(|part| part.replace(&other, &this)).collect();
    exchanged.join(&other)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            write_file(&to, &fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

fn edit(path: &Path, change: impl FnOnce(&str) -> String) -> Result<()> {
    write_file(path, change(&read(path)?).as_bytes())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_loses_only_the_decoder() {
        let manifest = "[dependencies]\ngimli = 1\niced-x86 = { workspace = true }\nlibc = 1\n";
        let expected = "[dependencies]\ngimli = 1\nlibc = 1\n";
        assert_eq!(without_decoder(manifest), expected);
    }

    #[test]
    fn the_modules_of_two_architectures_are_exchanged() {
        let library =
            "#[cfg(target_arch = \"aarch64\")]\nmod a;\n#[cfg(target_arch = \"x86_64\")]\nmod x;\n";
        let expected =
            "#[cfg(target_arch = \"x86_64\")]\nmod a;\n#[cfg(target_arch = \"aarch64\")]\nmod x;\n";
        assert_eq!(as_on_other_architecture(library), expected);
    }
}
