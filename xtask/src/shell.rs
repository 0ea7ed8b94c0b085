//! Paths in the checkout, and commands that run in it as steps.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::fs::statvfs;

/// The root of the checkout.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is a folder of the checkout")
}

/// Cargo's target directory: the one that holds this program.
pub fn target_dir() -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    let dir = this.parent().and_then(Path::parent);
    Ok(dir
        .context("xtask runs outside of a target directory")?
        .to_owned())
}

/// A directory for persistent files of tests: in memory if there is room, because they are flushed often.
pub fn memory_dir() -> Result<PathBuf> {
    const ROOM: u64 = 1 << 30;
    let shared = Path::new("/dev/shm");
    let room = statvfs(shared).map_or(0, |fs| fs.f_bavail * fs.f_frsize);
    if room >= ROOM {
        Ok(shared.to_owned())
    } else {
        target_dir()
    }
}

/// A `cargo` command that works in the checkout and in this program's target directory.
pub fn cargo(args: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(args)
        .current_dir(root())
        .env("CARGO_TARGET_DIR", target_dir()?);
    if std::env::var_os("CI").is_some() {
        // What only a second build uses fills half of the disk that the first one takes.
        command.env("CARGO_INCREMENTAL", "0");
    }
    Ok(command)
}

/// Runs a step, showing what is run; fails if it does.
pub fn step(command: &mut Command) -> Result<()> {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let line = words.join(" ");
    eprintln!("$ {line}");
    let status = command
        .status()
        .with_context(|| format!("cannot run `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// The absolute path of program `name`, from [`SEARCH_PATH`].
pub fn find_program(name: &str) -> Option<PathBuf> {
    SEARCH_PATH
        .split(':')
        .map(|dir| Path::new(dir).join(name))
        .find(|path| path.is_file())
}

/// Where programs under test are looked for: the system's own, not the user's PATH.
pub const SEARCH_PATH: &str = "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin";
