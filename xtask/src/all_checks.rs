//! `test` and `ci`: everything that must hold before a change is accepted, the cheapest checks first.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::args::Args;
use crate::cpu;
use crate::shell::{cargo, root, step, target_dir};
use crate::{
    architecture, corpus, differential, exactness, exploration, fuzz, guide, repairs, setup, tidy,
    transparency,
};

/// Packages that are not published: they test the others.
const UNPUBLISHED: [&str; 4] = ["differential", "seeded-random", "semantics", "xtask"];

/// The Cargo home with which packages are built.
const PACKAGE_HOME: &str = "package-home";

/// `cargo xtask ci`
pub fn ci(args: Args) -> Result<()> {
    args.finish()?;
    setup::run(Args::none())?;
    test(Args::none())
}

/// `cargo xtask test`
pub fn test(args: Args) -> Result<()> {
    args.finish()?;
    let started = Instant::now();
    step(&mut cargo(&["fmt", "--all", "--check"])?)?;
    check_format_of_hidden_files()?;
    tidy::run(Args::none())?;
    step(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ])?)?;
    document()?;
    step(&mut cargo(&["test", "--workspace"])?)?;
    package(Args::none())?;
    guide::run(Args::none())?;
    architecture::run(Args::none())?;
    fuzz::run(Args::none())?;
    differential::run(Args::given(&["--core"]))?;
    differential::run(Args::given(&["--symbolic", "--core"]))?;
    transparency::run(Args::given(&["--core", "--runs", "1"]))?;
    let scheduled = [
        "--core",
        "--runs",
        "1",
        "--filter",
        "threads",
        "--schedule",
        "1",
    ];
    transparency::run(Args::given(&scheduled))?;
    exactness::run(Args::given(&["--core"]))?;
    exploration::run(Args::given(&["--cases", "40"]))?;
    corpus::run(Args::given(&["--core"]))?;
    repairs::run(Args::given(&["--core"]))?;
    for mask in cpu::MASKS {
        run_as(mask)?;
    }
    println!("all checks passed in {} s", started.elapsed().as_secs());
    Ok(())
}

/// The documentation of every crate, private items included, has no errors and no broken links.
fn document() -> Result<()> {
    let words = [
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ];
    step(cargo(&words)?.env(
        "RUSTDOCFLAGS",
        "-D warnings -A rustdoc::private_intra_doc_links",
    ))
}

/// `cargo xtask package`: every published crate builds from what its package holds.
pub fn package(args: Args) -> Result<()> {
    args.finish()?;
    let mut command = cargo(&["package", "--workspace", "--allow-dirty", "--quiet"])?;
    for name in UNPUBLISHED {
        command.args(["--exclude", name]);
    }
    forget_built_packages()?;
    step(command.env("CARGO_HOME", cargo_home_without_sources()?))
}

/// Lets Cargo compile the packages of siblings again: it takes packages of one version for equal, also those of an earlier commit.
fn forget_built_packages() -> Result<()> {
    let built = target_dir()?.join("debug");
    let Ok(entries) = fs::read_dir(built.join("deps")) else {
        // Nothing was built yet.
        return Ok(());
    };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        let unit = name.and_then(|name| name.rsplit_once('-'));
        let Some((package, hash)) = unit.filter(|(package, _)| package.starts_with("brownout"))
        else {
            continue;
        };
        let is_list = path.extension().is_some_and(|extension| extension == "d");
        if is_list && fs::read_to_string(&path)?.contains(PACKAGE_HOME) {
            let unit = format!("{}-{hash}", package.replace('_', "-"));
            remove_folder(&built.join(".fingerprint").join(unit))?;
        }
    }
    Ok(())
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A directory that shares all with the user's Cargo home but the unpacked sources.
///
/// A package is built against the packages of its siblings, which Cargo unpacks there once for each version: it would go on
/// to build against those of an earlier commit.
fn cargo_home_without_sources() -> Result<PathBuf> {
    let shared = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(std::env::home_dir()?.join(".cargo")))
        .context("neither CARGO_HOME nor HOME is set")?;
    let home = target_dir()?.join(PACKAGE_HOME);
    remove_folder(&home)?;
    link_all_but(&shared, "registry", &home)?;
    link_all_but(&shared.join("registry"), "src", &home.join("registry"))?;
    Ok(home)
}

fn link_all_but(shared: &Path, left_out: &str, dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)?;
    for entry in fs::read_dir(shared).with_context(|| shared.display().to_string())? {
        let entry = entry?;
        if entry.file_name() != left_out {
            symlink(entry.path(), dir.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// What depends on features of the CPU, run as on another one.
fn run_as(mask: &str) -> Result<()> {
    differential::run(Args::given(&["--cpu", mask, "--cases", "2000"]))?;
    for filter in ["cpu/", "signals/vector", "system/ifunc"] {
        let words = ["--cpu", mask, "--core", "--runs", "1", "--filter", filter];
        transparency::run(Args::given(&words))?;
    }
    exactness::run(Args::given(&["--cpu", mask, "--core", "--runs", "1"]))
}

/// Folders whose files `cargo fmt` does not find: a registry macro declares them as modules, or they belong to no crate.
const HIDDEN_FROM_FORMAT: [&str; 3] = [
    "crates/brownout-lint/src/rules/",
    "crates/brownout-crash/src/strategy/",
    "tests/architecture/",
];

fn check_format_of_hidden_files() -> Result<()> {
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--check", "--edition", "2024"]);
    let is_hidden = |path: &&String| {
        let mut folders = HIDDEN_FROM_FORMAT.iter();
        path.ends_with(".rs") && folders.any(|folder| path.starts_with(folder))
    };
    let files = tidy::tracked_files()?;
    let paths = files.iter().filter(is_hidden).map(|path| root().join(path));
    // A file that a change in progress has deleted.
    rustfmt.args(paths.filter(|path| path.exists()));
    step(&mut rustfmt)
}
