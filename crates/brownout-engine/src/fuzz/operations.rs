//! Where operations on persistent memory are: what their identities stand for.

use brownout_ring::fuzz::{FuzzPage, MODULES, OPERATIONS, OperationEntry, PathText, operation};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// A place in the code of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodePlace {
    pub path: PathBuf,
    /// Offset of the instruction in the file.
    pub offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    Load,
    Store,
    Flush,
    Fence,
    /// A call of a library for persistent memory.
    Call,
}

/// An operation on persistent memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmOperation {
    pub kind: OperationKind,
    /// The instruction; `None` if it is in no file.
    pub place: Option<CodePlace>,
    /// The call outside of libraries that led there, if it is in a library.
    pub caller: Option<CodePlace>,
}

/// The operation with an identity; `None` if no execution has made it, or there were too many.
pub(super) fn find(page: &FuzzPage, identity: u64) -> Option<PmOperation> {
    let entry = (0..OPERATIONS)
        .map(|probe| &page.operations[(identity as usize).wrapping_add(probe) % OPERATIONS])
        .take_while(|entry| entry.identity.load(Acquire) != 0)
        .find(|entry| entry.identity.load(Relaxed) == identity)?;
    Some(PmOperation {
        kind: kind(entry),
        place: place(page, entry.module.load(Relaxed), entry.offset.load(Relaxed)),
        caller: place(
            page,
            entry.caller_module.load(Relaxed),
            entry.caller_offset.load(Relaxed),
        ),
    })
}

fn kind(entry: &OperationEntry) -> OperationKind {
    match entry.kind.load(Relaxed) {
        operation::LOAD => OperationKind::Load,
        operation::STORE => OperationKind::Store,
        operation::FLUSH => OperationKind::Flush,
        operation::FENCE => OperationKind::Fence,
        _ => OperationKind::Call,
    }
}

fn place(page: &FuzzPage, module: u32, offset: u64) -> Option<CodePlace> {
    let count = (page.module_count.load(Acquire) as usize).min(MODULES);
    let module = page.modules[..count].get(module as usize)?;
    Some(CodePlace {
        path: path(&module.path),
        offset,
    })
}

fn path(text: &PathText) -> PathBuf {
    let len = text.len.load(Acquire) as usize;
    let bytes = text.bytes.iter().take(len);
    let bytes: Vec<u8> = bytes.map(|byte| byte.load(Relaxed)).collect();
    OsStr::from_bytes(&bytes).into()
}
