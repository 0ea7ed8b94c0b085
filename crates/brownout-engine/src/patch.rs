//! Flushes and fences that are added to a running target at named instructions (`brownout-ring`, module `patch`).

use crate::hold::CodeLocation;
use brownout_ring::patch::{
    MAX_FILES, MAX_PATCHES, MAX_PATH, MAX_SITES, PAGE, PatchPage, PatchSite, PatchedFile,
    operation, role,
};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// What is added to a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchPlan {
    /// For each patch, what it does at the end of its statement.
    pub patches: Vec<PatchOperations>,
    pub sites: Vec<PatchedInstruction>,
}

/// What is done at the end of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchOperations {
    /// Flushes what the statement has stored.
    pub flush: bool,
    pub fence: bool,
    /// Syncs what the statement has stored, in place of flushing it.
    pub sync: bool,
    /// The statement is a loop: it ends at an instruction with [`InstructionRole::BeforeIt`].
    pub is_loop: bool,
}

/// An instruction with a role in a patch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PatchedInstruction {
    pub at: CodeLocation,
    /// The number of the patch.
    pub patch: usize,
    pub role: InstructionRole,
}

/// What an instruction is for the statement of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum InstructionRole {
    /// It stores what is flushed.
    Store,
    /// As `Store`, while the thread is in a call that returns to an instruction with [`ReturnsHere`](Self::ReturnsHere).
    StoreInCall,
    /// The statement ends behind it.
    BehindIt,
    /// The statement is a call that returns to it.
    ReturnsHere,
    /// The statement, a loop, has ended when the thread comes to it.
    BeforeIt,
}

/// How often the patches of a plan were carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchCounts {
    /// For each patch.
    pub performed: Vec<u64>,
    /// How often it was not known which bytes an instruction was about to store.
    pub unknown: u64,
}

impl PatchPlan {
    /// Whether the target can be given so many of everything.
    pub fn is_too_large(&self) -> bool {
        let paths = self.paths();
        self.patches.len() > MAX_PATCHES
            || self.sites.len() > MAX_SITES
            || paths.len() > MAX_FILES
            || paths.iter().any(|path| path.as_os_str().len() > MAX_PATH)
    }

    /// The files of all sites, each once.
    fn paths(&self) -> Vec<&PathBuf> {
        let mut paths: Vec<&PathBuf> = self.sites.iter().map(|site| &site.at.path).collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// Hands the plan to the target, before it starts.
    pub(crate) fn put(&self, wire: &File) -> io::Result<()> {
        if self.is_too_large() {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        let paths = self.paths();
        let write = |at: usize, bytes: &[u8]| wire.write_all_at(bytes, (PAGE + at) as u64);
        let word = |at: usize, value: u32| write(at, &value.to_ne_bytes());
        for (number, path) in paths.iter().enumerate() {
            // The runtime knows files by the paths of their descriptors.
            let path = std::fs::canonicalize(path)?;
            let path = path.as_os_str().as_bytes();
            if path.len() > MAX_PATH {
                return Err(io::Error::from(io::ErrorKind::InvalidFilename));
            }
            let at = offset_of!(PatchPage, file) + number * size_of::<PatchedFile>();
            write(
                at + offset_of!(PatchedFile, path_len),
                &(path.len() as u64).to_ne_bytes(),
            )?;
            write(at + offset_of!(PatchedFile, path), path)?;
        }
        for (number, operations) in self.patches.iter().enumerate() {
            let at = offset_of!(PatchPage, operations) + number * size_of::<u32>();
            word(at, operations.bits())?;
        }
        for (number, site) in self.sites.iter().enumerate() {
            let at = offset_of!(PatchPage, site) + number * size_of::<PatchSite>();
            let file = paths.binary_search(&&site.at.path).unwrap_or_default();
            write(
                at + offset_of!(PatchSite, offset),
                &site.at.offset.to_ne_bytes(),
            )?;
            word(at + offset_of!(PatchSite, file), file as u32)?;
            word(at + offset_of!(PatchSite, patch), site.patch as u32)?;
            word(at + offset_of!(PatchSite, role), site.role.bits())?;
        }
        word(offset_of!(PatchPage, files), paths.len() as u32)?;
        word(offset_of!(PatchPage, patches), self.patches.len() as u32)?;
        word(offset_of!(PatchPage, sites), self.sites.len() as u32)
    }

    /// What the target has done, once it has ended.
    pub(crate) fn counts(&self, wire: &File) -> io::Result<PatchCounts> {
        let mut performed = vec![0; self.patches.len()];
        let mut bytes = [0; 8];
        for (number, performed) in performed.iter_mut().enumerate() {
            let at = offset_of!(PatchPage, performed) + number * size_of::<u64>();
            wire.read_exact_at(&mut bytes, (PAGE + at) as u64)?;
            *performed = u64::from_ne_bytes(bytes);
        }
        let mut unknown = [0; 4];
        wire.read_exact_at(&mut unknown, (PAGE + offset_of!(PatchPage, unknown)) as u64)?;
        Ok(PatchCounts {
            performed,
            unknown: u32::from_ne_bytes(unknown).into(),
        })
    }
}

impl PatchOperations {
    fn bits(self) -> u32 {
        let bits = [
            (self.flush, operation::FLUSH),
            (self.fence, operation::FENCE),
            (self.sync, operation::SYNC),
            (self.is_loop, operation::LOOP),
        ];
        bits.iter()
            .filter(|(is_set, _)| *is_set)
            .fold(0, |all, (_, bit)| all | bit)
    }
}

impl InstructionRole {
    fn bits(self) -> u32 {
        match self {
            Self::Store => role::STORE,
            Self::StoreInCall => role::STORE | role::INSIDE,
            Self::BehindIt => role::AFTER,
            Self::ReturnsHere => role::RETURN,
            Self::BeforeIt => role::BEFORE,
        }
    }
}
