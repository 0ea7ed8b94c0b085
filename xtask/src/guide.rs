//! `cargo xtask guide`: the diffs in CONTRIBUTING.md apply to this very tree and compile.
//!
//! The diffs show how a rule, an instrument and a strategy are added. They are applied to a copy of the checkout, and the
//! crates that they change are then compiled. Their tests are not run: an instrument that is always on changes what
//! the tests of the translator compare.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::args::Args;
use crate::checkout_copy::copy_checkout;
use crate::shell::{cargo, root, step, target_dir};

/// The document whose diffs are tried.
const DOCUMENT: &str = "CONTRIBUTING.md";
/// How many diffs it has: a rule, an instrument and a strategy.
const DIFFS: usize = 3;

pub fn run(args: Args) -> Result<()> {
    args.finish()?;
    let text = fs::read_to_string(root().join(DOCUMENT)).context(DOCUMENT)?;
    let diffs = diffs(&text);
    if diffs.len() != DIFFS {
        bail!("{DOCUMENT} has {} diffs instead of {DIFFS}", diffs.len());
    }
    let copy = target_dir()?.join("guide");
    copy_checkout(&copy)?;
    let mut packages = Vec::new();
    for diff in &diffs {
        apply(&copy, diff)?;
        packages.extend(changed_crates(diff));
    }
    packages.sort_unstable();
    packages.dedup();
    let mut check = cargo(&["check", "--lib"])?;
    for package in &packages {
        check.args(["--package", package]);
    }
    // Cargo takes the copy's packages for those of the checkout, which would go on with the copy's loader.
    let built = target_dir()?.join("guide-target");
    step(check.current_dir(&copy).env("CARGO_TARGET_DIR", built))?;
    println!(
        "guide: {} diffs of {DOCUMENT} apply, and {} compile with them",
        diffs.len(),
        packages.join(", ")
    );
    Ok(())
}

/// The blocks of a document that are marked as diffs.
fn diffs(text: &str) -> Vec<String> {
    let mut diffs = Vec::new();
    let mut lines = text.lines();
    while lines.any(|line| line.trim() == "```diff") {
        let block = lines.by_ref().take_while(|line| line.trim() != "```");
        diffs.push(block.map(|line| format!("{line}\n")).collect());
    }
    diffs
}

/// The crates whose files a diff changes.
fn changed_crates(diff: &str) -> Vec<String> {
    diff.lines()
        .filter_map(|line| line.strip_prefix("+++ b/crates/"))
        .filter_map(|path| path.split('/').next())
        .map(str::to_owned)
        .collect()
}

fn apply(copy: &Path, diff: &str) -> Result<()> {
    // The copy lies in a checkout, whose paths `git apply` would use otherwise.
    let mut git = Command::new("git")
        .args(["apply", "-"])
        .current_dir(copy)
        .env("GIT_CEILING_DIRECTORIES", copy.parent().unwrap_or(copy))
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot run git")?;
    git.stdin
        .take()
        .context("git has no standard input")?
        .write_all(diff.as_bytes())?;
    let status = git.wait()?;
    if !status.success() {
        bail!("a diff of {DOCUMENT} does not apply: correct it to match the sources\n{diff}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diffs_are_the_blocks_marked_as_such() {
        let text = "a\n```diff\n+++ b/crates/x/y.rs\n+1\n```\n```sh\nls\n```\n```diff\n-2\n```\n";
        let found = diffs(text);
        assert_eq!(found, ["+++ b/crates/x/y.rs\n+1\n", "-2\n"]);
        assert_eq!(changed_crates(&found[0]), ["x"]);
        assert!(changed_crates(&found[1]).is_empty());
    }
}
