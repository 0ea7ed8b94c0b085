//! The code of an ELF file and its operations on persistent memory, found statically (Agamotto, §2.4.3.1).
//!
//! [`AnalysedFile::of_file`] finds the functions of a file (`elf`) and what in them may modify persistent memory (`pointer_flow`): flushes,
//! fences and non-temporal stores, calls of libraries for persistent memory and of `msync`, stores through pointers that may come from a
//! mapping. It is an over-approximation that is never used to leave code out, only to choose what is tried first. What it found is kept by
//! build-id in a directory of the caller's choice (`cache`).
//!
//! Can miss: stores through pointers that `pointer_flow` loses (see there), and code without symbols or unwind tables.

mod cache;
mod elf;
mod pointer_flow;

use std::path::Path;

pub(crate) use pointer_flow::{CodeEffect, FileFacts, ImportMeaning, RegisterSet};
use serde::{Deserialize, Serialize};

use crate::arch::ARCHITECTURE_NAME;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PmOperationKind {
    /// A flush, a fence or a non-temporal store, whatever it concerns.
    Instruction,
    /// A call of a function that modifies persistent memory or makes it durable.
    Call,
    /// A store through a pointer that may point to persistent memory.
    Store,
}

/// A file's code could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnalysisError {
    #[error("cannot read `{path}`: {error}")]
    Read {
        path: Box<Path>,
        error: std::io::Error,
    },
    #[error(
        "`{path}` is not a 64-bit ELF file for {}: {reason}",
        ARCHITECTURE_NAME
    )]
    Format { path: Box<Path>, reason: String },
}

/// The functions of a file, by addresses as the file has them.
#[derive(Clone, Debug)]
pub struct AnalysedFile {
    pub(crate) image: elf::Image,
    pub(crate) found: Found,
}

/// What the analysis of a file has found. This is what is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    /// Start and end of each function.
    pub functions: Vec<(u64, u64)>,
    /// The operations, in the order of their addresses.
    pub operations: Vec<(u64, PmOperationKind)>,
    /// Jumps and calls through slots of imported functions: the instruction, and the name.
    pub links: Vec<(u64, String)>,
    /// Functions that other files can import.
    pub exports: Vec<(String, u64)>,
}

impl AnalysedFile {
    /// Analyses a file, unless `cache` has what an earlier analysis found. A cache that is damaged or cannot be written costs time only.
    pub fn of_file(path: &Path, cache: Option<&Path>) -> Result<Self, AnalysisError> {
        let bytes = std::fs::read(path).map_err(|error| AnalysisError::Read {
            path: path.into(),
            error,
        })?;
        let format = |reason| AnalysisError::Format {
            path: path.into(),
            reason,
        };
        let (image, symbols) = elf::read(&bytes).map_err(format)?;
        let entry = cache.and_then(|directory| cache::Entry::of(directory, &image, bytes.len()));
        if let Some(found) = entry.as_ref().and_then(cache::Entry::load) {
            return Ok(Self { image, found });
        }
        let found = pointer_flow::analyse(&image, symbols);
        if let Some(entry) = entry {
            entry.store(&found);
        }
        Ok(Self { image, found })
    }

    /// How many functions are known.
    pub fn functions(&self) -> usize {
        self.found.functions.len()
    }

    /// The operations, by addresses as the file has them.
    pub fn operations(&self) -> &[(u64, PmOperationKind)] {
        &self.found.operations
    }

    /// What has to be added to addresses of the file if its bytes from `file_offset` on are mapped at `address`.
    pub fn load_bias(&self, address: u64, file_offset: u64) -> Option<u64> {
        let parts = self.image.segments.iter();
        let mut holding = parts.filter(|it| {
            let page = it.file_offset & !0xfff;
            (page..it.file_offset + it.bytes.len() as u64).contains(&file_offset)
        });
        let segment = holding.next()?;
        Some(
            address.wrapping_sub(
                segment
                    .address
                    .wrapping_add(file_offset)
                    .wrapping_sub(segment.file_offset),
            ),
        )
    }
}
