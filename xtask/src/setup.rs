//! `cargo xtask setup`: installs the Debian packages that the tests use.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Result, bail};
use rustix::process::geteuid;

use crate::args::Args;
use crate::shell::{cargo, find_program, step};
use crate::transparency;

/// Which package brings a program that a test needs. A program not listed is part of every Debian.
const PACKAGES: &[(&str, &str)] = &[
    ("bc", "bc"),
    ("bzip2", "bzip2"),
    ("curl", "curl"),
    ("clang", "clang"),
    ("dwp", "binutils"),
    ("dwz", "dwz"),
    ("file", "file"),
    ("g++", "g++"),
    ("gawk", "gawk"),
    ("gcc", "gcc"),
    ("gdb", "gdb"),
    ("git", "git"),
    ("java", "default-jre-headless"),
    ("jq", "jq"),
    ("lua5.4", "lua5.4"),
    ("make", "make"),
    ("memcached", "memcached"),
    ("musl-gcc", "musl-tools"),
    ("nginx", "nginx-light"),
    ("node", "nodejs"),
    ("openssl", "openssl"),
    ("patch", "patch"),
    ("perl", "perl"),
    ("ps", "procps"),
    ("python3", "python3"),
    ("qemu-x86_64", "qemu-user"),
    ("redis-benchmark", "redis-tools"),
    ("redis-server", "redis-server"),
    ("ruby", "ruby"),
    ("sqlite3", "sqlite3"),
    ("stress-ng", "stress-ng"),
    ("tclsh", "tcl"),
    ("unzip", "unzip"),
    ("valgrind", "valgrind"),
    ("xxd", "xxd"),
    ("xz", "xz-utils"),
    ("z3", "z3"),
    ("zip", "zip"),
    ("zsh", "zsh"),
    ("zstd", "zstd"),
];

/// Programs that `test` needs in addition to those of the tables.
const ALWAYS: &[&str] = &[
    "clang", "dwp", "dwz", "gcc", "g++", "git", "musl-gcc", "ps", "z3",
];

/// Programs that only `bench` uses, for comparison.
const FOR_BENCH: &[&str] = &[
    "redis-benchmark",
    "redis-server",
    "valgrind",
    "qemu-x86_64",
    "sqlite3",
    "perl",
    "python3",
];

/// Libraries that the programs under `tests/programs/pm` link with.
const LIBRARIES: &[&str] = &[
    "libc6-dev",
    "libpmem-dev",
    "libpmemobj-dev",
    "libndctl-dev",
    "libdaxctl-dev",
];

/// The package that brings `program`.
pub fn package_of(program: &str) -> Option<&'static str> {
    PACKAGES
        .iter()
        .find(|(name, _)| *name == program)
        .map(|(_, package)| *package)
}

pub fn run(mut args: Args) -> Result<()> {
    let all = args.switch("--all");
    args.finish()?;
    let mut programs: BTreeSet<&str> = ALWAYS.iter().copied().collect();
    programs.extend(transparency::needed_programs(all));
    if all {
        programs.extend(FOR_BENCH);
    }
    let mut packages: BTreeSet<&str> = programs
        .into_iter()
        .filter(|name| find_program(name).is_none())
        .filter_map(package_of)
        .collect();
    packages.extend(LIBRARIES.iter().filter(|package| !is_installed(package)));
    if packages.is_empty() {
        println!("all needed Debian packages are installed");
    } else {
        install(&packages)?;
    }
    add_components()
}

fn is_installed(package: &str) -> bool {
    let query = Command::new("dpkg-query")
        .args(["-W", "-f=${db:Status-Status}", package])
        .output();
    query.is_ok_and(|output| output.stdout == b"installed")
}

fn install(packages: &BTreeSet<&str>) -> Result<()> {
    let list: Vec<&str> = packages.iter().copied().collect();
    if find_program("apt-get").is_none() {
        bail!(
            "apt-get is not available; install the equivalents of these Debian packages: {}",
            list.join(" ")
        );
    }
    let apt = |words: &[&str]| {
        let mut command = if geteuid().is_root() {
            Command::new("env")
        } else {
            let mut command = Command::new("sudo");
            command.arg("env");
            command
        };
        command
            .args(["DEBIAN_FRONTEND=noninteractive", "apt-get"])
            .args(words);
        command
    };
    step(&mut apt(&["update"]))?;
    step(apt(&["install", "--yes", "--no-install-recommends"]).args(list))
}

/// A minimal toolchain lacks what `test` calls.
fn add_components() -> Result<()> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        let present = cargo(&[subcommand, "--version"])?
            .output()
            .is_ok_and(|output| output.status.success());
        if !present {
            step(Command::new("rustup").args(["component", "add", component]))?;
        }
    }
    Ok(())
}
