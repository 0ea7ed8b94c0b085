//! The directory that this process writes its results to, known from the start.
//!
//! If the process fails, the results in the directory must say so. This includes results of an earlier run that this one was to
//! replace: otherwise they would pass for results of this one.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::lock::lock;
use super::{is_campaign, with_pid};

/// How far the process has come with its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is known which one it will be.
    Planned,
    /// This process has locked it.
    Claimed,
    /// It holds results of this process.
    InUse,
}

static DESTINATION: Mutex<Option<(PathBuf, Stage)>> = Mutex::new(None);

fn set(destination: Option<(PathBuf, Stage)>) {
    *DESTINATION.lock().unwrap_or_else(PoisonError::into_inner) = destination;
}

fn get() -> Option<(PathBuf, Stage)> {
    let destination = DESTINATION.lock();
    destination.unwrap_or_else(PoisonError::into_inner).clone()
}

/// The results of this process will go to `path`. To be called before anything can fail. A campaign stays as it is if a command cannot use
/// it.
pub fn plan(path: &Path) {
    if is_campaign(path) {
        return;
    }
    set(Some((with_pid(path), Stage::Planned)));
}

/// This process has locked the directory.
pub(super) fn claim(path: &Path) {
    set(Some((path.to_owned(), Stage::Claimed)));
}

/// The directory holds results of this process from now on.
pub(super) fn occupy(path: &Path) {
    set(Some((path.to_owned(), Stage::InUse)));
}

/// There is no such directory, or it belongs to another process.
pub(super) fn give_up() {
    set(None);
}

/// Whether there are results of this process.
pub fn is_in_use() -> bool {
    get().is_some_and(|(_, stage)| stage == Stage::InUse)
}

/// Whose results a failing process finds in its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultsOf {
    ThisRun,
    AnEarlierRun,
}

/// Calls `mark` with the directory whose results must say that this process has failed, if there is one. A directory that
/// another process uses is left alone.
pub fn mark_failed(mark: impl FnOnce(&Path, ResultsOf)) {
    match get() {
        None => {}
        Some((path, Stage::InUse)) => mark(&path, ResultsOf::ThisRun),
        Some((path, Stage::Claimed)) => mark(&path, ResultsOf::AnEarlierRun),
        Some((path, Stage::Planned)) => {
            if let Ok(_lock) = lock(&path) {
                mark(&path, ResultsOf::AnEarlierRun);
            }
        }
    }
}
