//! Holds threads of a target between a store and what makes it durable, and lets the others run meanwhile: whether one of them
//! reads the store and acts on it.
//!
//! The runtime stops a thread (`brownout-ring`, module `hold`). Here is decided when it goes on: [`observer`] follows the events for
//! loads of what was stored and for what their threads do then; [`supervisor`] lets the thread go if the others do not come to that, and
//! ends the target once they have.

mod observer;
mod supervisor;

use crate::sys::memory::HoldMap;
use brownout_ring::hold::{HeldInstruction, HoldPage, MAX_PATH, PAGE};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use observer::HeldEvents;
pub(crate) use supervisor::{HoldProgress, supervise};

/// An instruction of a file, wherever the file is mapped. The path is as in a trace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CodeLocation {
    pub path: PathBuf,
    /// The offset in the file.
    pub offset: u64,
}

/// Which threads are held, and until when.
#[derive(Clone, Debug)]
pub struct HoldPlan {
    /// The store: its instruction, then the return addresses of its calling context as far as they are known, innermost first.
    pub store: Vec<CodeLocation>,
    /// The instruction before which the thread waits; `None` if none is held, because the store is never durable.
    pub wait: Option<CodeLocation>,
    /// Functions that send data out of the process.
    pub output_functions: Vec<String>,
    /// How long a thread is held at most.
    pub longest_hold: Duration,
    /// How long the target may run.
    pub time_limit: Duration,
}

/// Names the instructions of a plan to the target, before it starts.
pub(crate) fn put_plan(wire: &File, plan: &HoldPlan) -> io::Result<()> {
    let store = plan.store.first();
    let instructions = [
        (store, offset_of!(HoldPage, store)),
        (plan.wait.as_ref(), offset_of!(HoldPage, wait)),
    ];
    for (location, at) in instructions {
        let Some(location) = location else { continue };
        // The runtime knows files by the paths of their descriptors.
        let path = std::fs::canonicalize(&location.path)?;
        let path = path.as_os_str().as_bytes();
        if path.len() > MAX_PATH {
            return Err(io::Error::from(io::ErrorKind::InvalidFilename));
        }
        let at = (PAGE + at) as u64;
        let (offset, len) = (location.offset, path.len() as u64);
        let field = |field: usize| at + field as u64;
        let fields: [(usize, &[u8]); 3] = [
            (offset_of!(HeldInstruction, offset), &offset.to_ne_bytes()),
            (offset_of!(HeldInstruction, path_len), &len.to_ne_bytes()),
            (offset_of!(HeldInstruction, path), path),
        ];
        for (name, bytes) in fields {
            wire.write_all_at(bytes, field(name))?;
        }
    }
    Ok(())
}

/// Where an address of a process is in its file.
pub(crate) fn location(module: &brownout_trace::Module, address: u64) -> (&Path, u64) {
    let offset = address
        .wrapping_sub(module.addr.0)
        .wrapping_add(module.file_offset);
    (&module.path, offset)
}

/// Maps where the target says which thread is held.
pub(crate) fn map(wire: &File) -> io::Result<HoldMap> {
    HoldMap::map(wire)
}
