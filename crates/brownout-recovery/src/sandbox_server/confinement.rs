//! What confines recoveries: namespaces with a view of their own, or only a private directory.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Signal, WaitOptions};

use super::directory::PrivateDirectory;
use crate::process_tree::descendants;
use crate::tracer::resume;
use crate::view::{Condition, TEMPORARY_DIRECTORY, View};
use crate::{Isolation, Refusal, sys};

/// What confines recoveries.
#[derive(Debug)]
pub enum Confinement {
    /// Namespaces.
    View(View),
    /// A private directory, without namespaces.
    Directory(PrivateDirectory),
}

impl Confinement {
    pub fn isolation(&self) -> Isolation {
        match self {
            Self::View(view) => view.isolation(),
            Self::Directory(_) => Isolation::Directory,
        }
    }

    /// Whether recoveries have a pid namespace, so that their process ids can be chosen.
    pub fn has_own_pids(&self) -> bool {
        matches!(self, Self::View(_))
    }

    /// The paths of the persistent files for recovery.
    pub fn paths<'a>(&'a self, original: &'a [PathBuf]) -> Vec<PathBuf> {
        match self {
            Self::View(_) => original.to_vec(),
            Self::Directory(directory) => directory.paths().map(Path::to_owned).collect(),
        }
    }

    pub fn persistent_files(&self) -> Vec<&File> {
        match self {
            Self::View(view) => view.persistent_files().collect(),
            Self::Directory(directory) => directory.persistent_files().collect(),
        }
    }

    pub fn temporary_directory(&self) -> &Path {
        match self {
            Self::View(_) => Path::new(TEMPORARY_DIRECTORY),
            Self::Directory(directory) => directory.temporary_directory(),
        }
    }

    pub fn hide(&self, numbers: &[usize]) -> Result<(), Refusal> {
        match self {
            Self::View(view) => view.hide(numbers),
            Self::Directory(directory) => directory.hide(numbers),
        }
    }

    pub fn condition(&self) -> io::Result<Condition> {
        match self {
            Self::View(view) => view.condition(),
            Self::Directory(directory) => directory.condition(),
        }
    }

    /// Undoes the changes of a run. Returns the numbers of the persistent files that were created again, or `None` if a new sandbox is
    /// needed.
    pub fn restore(&mut self) -> io::Result<Option<Vec<usize>>> {
        match self {
            Self::View(view) => view.restore(),
            Self::Directory(directory) => directory.restore().map(Some),
        }
    }

    /// Asks all processes of a run to end.
    pub fn ask_to_end(&self) {
        match self {
            Self::View(_) => {
                // An error means that there are none.
                let _ = sys::signal_namespace(Signal::TERM);
            }
            Self::Directory(_) => signal_descendants(Signal::TERM),
        }
    }

    /// Ends all processes of a run, and removes System V IPC objects, which outlive processes.
    pub fn end_all(&self) -> io::Result<()> {
        loop {
            let ended = match rustix::process::wait(sys::ALL_CHILDREN | WaitOptions::NOHANG) {
                Ok(None) => {
                    match self {
                        Self::View(_) => {
                            let _ = sys::signal_namespace(Signal::KILL);
                        }
                        Self::Directory(_) => signal_descendants(Signal::KILL),
                    }
                    rustix::process::wait(sys::ALL_CHILDREN)
                }
                ended => ended,
            };
            match ended {
                // Orphans become children of this process, so without children no process is left.
                Err(rustix::io::Errno::CHILD) => break,
                Ok(Some((thread, status))) if status.stopped() => {
                    // A traced thread stops once more when it exits.
                    let _ = resume(thread, 0);
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        if let Self::View(_) = self {
            sys::remove_system_v_ipc();
        }
        Ok(())
    }
}

fn signal_descendants(signal: Signal) {
    for process in descendants().iter().filter(|process| !process.is_zombie) {
        // It may have ended already.
        let _ = rustix::process::kill_process(process.pid, signal);
    }
}
