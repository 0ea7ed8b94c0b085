//! `test` and `ci`: all that must hold before a change is accepted, cheapest checks first.

use std::time::Instant;

use anyhow::Result;

use crate::args::Args;
use crate::shell::{cargo, step};
use crate::{corpus, differential, exactness, fuzz, setup, tidy, transparency};

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
    tidy::run(Args::none())?;
    step(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ])?)?;
    step(&mut cargo(&["test", "--workspace"])?)?;
    if cargo(&["deny", "--version"])?.output()?.status.success() {
        step(&mut cargo(&[
            "deny", "check", "bans", "licenses", "sources",
        ])?)?;
    }
    fuzz::run(Args::none())?;
    differential::run(Args::given(&["--core"]))?;
    transparency::run(Args::given(&["--core", "--runs", "1"]))?;
    exactness::run(Args::given(&["--core"]))?;
    corpus::run(Args::given(&["--core"]))?;
    println!("all checks passed in {} s", started.elapsed().as_secs());
    Ok(())
}
