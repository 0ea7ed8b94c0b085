//! Identities of instructions that are the same in each run: a hash of the name of the module and the offset in its file.
//!
//! What it can miss: code that is in no file has the identity of its address.

use super::page::{page, put_text};
use crate::sys;
use alloc::vec::Vec;
use brownout_ring::fuzz::{MAX_PATH, MODULES, library};
use core::sync::atomic::Ordering;

/// Code of a file, as it is mapped now.
#[derive(Clone, Copy)]
struct MappedModule {
    start: u64,
    end: u64,
    file_offset: u64,
    identity: u64,
    index: u32,
    role: Role,
}

/// Whose code a module is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// That of the program under test.
    Program,
    /// That of a library.
    Library,
    /// That of a library for persistent memory, whose calls are operations.
    Persistence,
}

/// Where an instruction is.
#[derive(Clone, Copy)]
pub struct CodeIdentity {
    pub identity: u64,
    /// Index in the shared table; `u32::MAX` if it is in no module of it.
    pub module: u32,
    pub offset: u64,
    pub role: Role,
}

/// The modules of the process.
#[derive(Default)]
pub struct Modules {
    mapped: Vec<MappedModule>,
}

impl Modules {
    /// Where the instruction at `pc` is. Of several modules that overlap, the one mapped last counts.
    pub fn place(&self, pc: u64) -> CodeIdentity {
        let mut mapped = self.mapped.iter().rev();
        match mapped.find(|module| (module.start..module.end).contains(&pc)) {
            Some(module) => {
                let offset = pc - module.start + module.file_offset;
                CodeIdentity {
                    identity: spread_bits(module.identity ^ offset.rotate_left(20)),
                    module: module.index,
                    offset,
                    role: module.role,
                }
            }
            None => CodeIdentity {
                identity: spread_bits(pc),
                module: u32::MAX,
                offset: pc,
                role: Role::Program,
            },
        }
    }

    /// Adds code of the file behind `fd`.
    pub fn add(&mut self, fd: i32, start: u64, len: u64, file_offset: u64) {
        let mut buffer = [0u8; 4096];
        let path = sys::fd_path(fd, &mut buffer).unwrap_or_default();
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        let identity = spread_bits(name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }));
        let role = role(name);
        self.mapped.push(MappedModule {
            start,
            end: start + len,
            file_offset,
            identity,
            index: shared_index(identity, path),
            role,
        });
    }

    /// Forgets modules in a range that is gone.
    pub fn forget(&mut self, start: u64, end: u64) {
        (self.mapped).retain(|module| module.start < start || module.end > end);
    }
}

/// Whose code a module is, given its name.
fn role(name: &[u8]) -> Role {
    let Some(page) = page() else {
        return Role::Program;
    };
    let all = page.libraries.iter();
    let all: Vec<u8> = all.map(|byte| byte.load(Ordering::Relaxed)).collect();
    let mut libraries = all.split(|&byte| byte == 0).filter_map(<[u8]>::split_first);
    // Those for persistent memory come first.
    match libraries.find(|(_, library)| name.starts_with(library)) {
        Some((&library::PERSISTENCE, _)) => Role::Persistence,
        Some(_) => Role::Library,
        None => Role::Program,
    }
}

/// The index of a module in the shared table, into which it is put if it is not there.
fn shared_index(identity: u64, path: &[u8]) -> u32 {
    let Some(page) = page().filter(|_| path.len() <= MAX_PATH) else {
        return u32::MAX;
    };
    let count = page.module_count.load(Ordering::Acquire) as usize;
    let mut known = page.modules.iter().take(count);
    if let Some(index) =
        known.position(|module| module.identity.load(Ordering::Relaxed) == identity)
    {
        return index as u32;
    }
    if count >= MODULES {
        return u32::MAX;
    }
    put_text(&page.modules[count].path, path);
    let module = &page.modules[count];
    module.identity.store(identity, Ordering::Relaxed);
    (page.module_count).store(count as u32 + 1, Ordering::Release);
    count as u32
}

/// Spreads the bits of a word (the finaliser of SplitMix64). Only 0 gives 0.
pub fn spread_bits(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_has_the_same_identity_wherever_its_module_is_mapped() {
        let module = |start| MappedModule {
            start,
            end: start + 0x3000,
            file_offset: 0x1000,
            identity: 7,
            index: 0,
            role: Role::Program,
        };
        let at = |start, pc| {
            let mapped = Vec::from([module(start)]);
            Modules { mapped }.place(pc)
        };
        let one = at(0x40_0000, 0x40_0123);
        assert_eq!(one.offset, 0x1123);
        assert_eq!(one.identity, at(0x70_0000, 0x70_0123).identity);
        assert_ne!(one.identity, at(0x70_0000, 0x70_0124).identity);
    }
}
