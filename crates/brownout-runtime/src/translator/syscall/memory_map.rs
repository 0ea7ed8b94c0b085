//! Calls that change the address space.
//!
//! Code is removed from the tables before the kernel's call, because the translator must not read what is gone,
//! and restored if the call fails. Instruments update their tables after the call: until then threads may use
//! what is there. A [`MapLock`] makes either a single step.

use crate::hooks;
use crate::memory::{PAGE, page_up};
use crate::sys;
use crate::sys::{Raw, err, errno, is_err, linux};
use crate::translator::cache;
use crate::translator::context::Context;
use crate::translator::dispatch::with_translator;
use crate::translator::map_lock;
use crate::translator::map_lock::MapLock;
use crate::translator::process;
use crate::translator::space::{Removed, SPACE};

const MAP_FIXED: u64 = linux::MAP_FIXED as u64;
const MAP_FIXED_NOREPLACE: u64 = linux::MAP_FIXED_NOREPLACE as u64;
const MAP_ANONYMOUS: u64 = linux::MAP_ANONYMOUS as u64;
const PROT_READ: u64 = linux::PROT_READ as u64;
const PROT_WRITE: u64 = linux::PROT_WRITE as u64;
const PROT_EXEC: u64 = linux::PROT_EXEC as u64;
/// Reservations and files larger than this are not placed low.
const LOW_LIMIT: u64 = 512 << 20;

/// Announces code that was mapped from a file. Never inlined: each system call would pay for the buffer, whose pages a
/// fork has copied.
#[inline(never)]
fn announce_file(context: &mut Context, start: u64, len: u64, offset: u64, fd: i32) {
    let mut buffer = [0u8; 4096];
    if let Some(path) = sys::fd_path(fd, &mut buffer) {
        process::announce_module(context, start, len, offset, path);
    }
}

pub fn mmap(context: &mut Context, args: [u64; 6]) -> Raw {
    let [addr, len, prot, flags, fd, offset] = args;
    let fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0;
    if fixed && touches_engine(addr, len) {
        return err(errno::ENOMEM);
    }
    let mut args = args;
    if !fixed && crate::memory::is_engine(addr, addr.saturating_add(len)) {
        // A hint to memory of the engine: the kernel chooses, as it does when something else is there.
        args[0] = 0;
    }
    let [addr, ..] = args;
    if addr != 0 {
        give_up_table(addr, len);
    }
    let mut map_lock = map_lock::acquire();
    let replaces = flags & MAP_FIXED != 0;
    let removed = replaces.then(|| take_code(&mut map_lock, addr, len));
    let mut map_lock = match hooks::map(context, map_lock, args) {
        Err(map_lock) => map_lock,
        Ok(raw) => {
            let removed = removed.unwrap_or_default();
            if is_err(raw) {
                SPACE.lock().put_back(removed);
            } else if !removed.is_empty() {
                code_is_gone(addr, addr.saturating_add(page_up(len)));
            }
            return raw;
        }
    };
    let mut wanted = args;
    // Code that can be executed must be readable for the translator.
    if prot & PROT_EXEC != 0 {
        wanted[2] |= PROT_READ;
    }
    if !fixed
        && addr == 0
        && wants_low(prot, flags, fd as i32, len)
        && let Some(low) = SPACE.lock().place_low(len)
    {
        wanted[0] = low;
        wanted[3] |= MAP_FIXED_NOREPLACE;
    }
    if replaces {
        hooks::replacing(&mut map_lock, addr, len);
    }
    // SAFETY: the target's own call; what a fixed mapping replaces was checked to be the target's.
    let mut raw = unsafe { sys::syscall(linux::__NR_mmap, wanted) };
    if is_err(raw) && wanted[0] != args[0] {
        wanted[0] = args[0];
        wanted[3] = args[3];
        // SAFETY: as above.
        raw = unsafe { sys::syscall(linux::__NR_mmap, wanted) };
    }
    if let Some(removed) = removed {
        settle(context, raw, addr, len, removed);
    }
    if !is_err(raw) && offset == 0 && flags & MAP_ANONYMOUS == 0 {
        SPACE.lock().add_base(raw, raw + page_up(len));
    }
    if !is_err(raw) && prot & PROT_EXEC != 0 {
        code_mapped(raw, page_up(len), prot);
        if flags & MAP_ANONYMOUS == 0 {
            SPACE.lock().add_module(raw, raw + page_up(len), offset);
            hooks::module_mapped(fd as i32, raw, page_up(len), offset);
            announce_file(context, raw, page_up(len), offset, fd as i32);
        }
    }
    raw
}

/// Whether the mapping is likely to hold code: ELF files, executable memory, and reservations into
/// which such are put.
fn wants_low(prot: u64, flags: u64, fd: i32, len: u64) -> bool {
    if len == 0 || len > LOW_LIMIT {
        return false;
    }
    if prot & PROT_EXEC != 0 {
        return true;
    }
    let private = flags & 3 == u64::from(linux::MAP_PRIVATE);
    if flags & MAP_ANONYMOUS == 0 {
        let mut magic = [0u8; 4];
        return private && sys::pread(fd, &mut magic, 0) == 4 && &magic == b"\x7fELF";
    }
    // Libraries with segments of large alignment are mapped into a reservation. Arenas and stacks are reserved
    // with one of these flags.
    let other = u64::from(linux::MAP_NORESERVE | linux::MAP_STACK);
    private && prot == 0 && flags & other == 0
}

/// Code was mapped in a range.
fn code_mapped(start: u64, len: u64, prot: u64) {
    let ambiguous = SPACE
        .lock()
        .add_executable(start, start + len, prot & PROT_WRITE != 0);
    with_translator(|translator| {
        if translator.cache.has_code(start, start + len) {
            translator.cache.invalidate(start, start + len);
        }
        if ambiguous && !translator.cache.all_far {
            translator.cache.all_far = true;
            translator.cache.invalidate_all();
        }
    });
}

/// The target asks for addresses that the branch table occupies: it gets them, and branches do
/// without the table from then on.
fn give_up_table(start: u64, len: u64) {
    let end = start.saturating_add(page_up(len));
    if !crate::translator::cache::table_overlaps(start, end) {
        return;
    }
    with_translator(|translator| {
        translator.cache.all_far = true;
        translator.cache.invalidate_all();
        crate::translator::cache::give_up_table(start, end);
    });
}

/// Code in a range is about to be unmapped or replaced: the translator no longer reads it.
fn take_code(map_lock: &mut MapLock, start: u64, len: u64) -> Removed {
    let end = start.saturating_add(page_up(len));
    let mut space = SPACE.lock();
    if len == 0 || !space.any_executable(start, end) {
        return Removed::default();
    }
    // Threads that fault meanwhile try again.
    map_lock.mark();
    let removed = space.remove(start, end);
    drop(space);
    with_translator(|translator| {
        if translator.cache.has_code(start, end) {
            translator.cache.invalidate(start, end);
        }
    });
    removed
}

/// After a call on a range whose code was removed: restores it if the call failed; otherwise it is gone for
/// good.
fn settle(context: &mut Context, raw: Raw, start: u64, len: u64, removed: Removed) {
    if is_err(raw) {
        SPACE.lock().put_back(removed);
        return;
    }
    let end = start.saturating_add(page_up(len));
    hooks::unmapped(context, start, end);
    if !removed.is_empty() {
        code_is_gone(start, end);
    }
}

fn code_is_gone(start: u64, end: u64) {
    with_translator(|translator| translator.forget_instructions(start, end));
}

fn touches_engine(start: u64, len: u64) -> bool {
    let end = start.saturating_add(len);
    cache::overlaps(start, end) || crate::memory::is_engine(start, end) || hooks::owns(start, end)
}

pub fn munmap(context: &mut Context, addr: u64, len: u64) -> Raw {
    if touches_engine(addr, len) {
        return err(errno::EINVAL);
    }
    let mut map_lock = map_lock::acquire();
    let removed = take_code(&mut map_lock, addr, len);
    // SAFETY: the target's own call on its own memory.
    let raw = unsafe { sys::munmap(addr, len) };
    settle(context, raw, addr, len, removed);
    if !is_err(raw) {
        let end = addr.saturating_add(page_up(len));
        SPACE.lock().release(addr, end);
    }
    raw
}

pub fn mprotect(context: &mut Context, nr: u32, args: [u64; 6]) -> Raw {
    let [addr, len, prot, ..] = args;
    if touches_engine(addr, len) {
        return err(errno::ENOMEM);
    }
    let mut map_lock = map_lock::acquire();
    if let Some(raw) = hooks::protect(context, args) {
        return raw;
    }
    let mut wanted = args;
    if prot & PROT_EXEC != 0 {
        wanted[2] |= PROT_READ;
    }
    // What was code and may be written now must not be run from old copies.
    let removed = (prot & PROT_EXEC == 0).then(|| take_code(&mut map_lock, addr, len));
    // SAFETY: the target's own call on its own memory.
    let raw = unsafe { sys::syscall(nr, wanted) };
    if let Some(removed) = removed
        && is_err(raw)
    {
        SPACE.lock().put_back(removed);
    }
    if !is_err(raw) && prot & PROT_EXEC != 0 {
        code_mapped(addr, page_up(len), prot);
    }
    raw
}

pub fn mremap(context: &mut Context, args: [u64; 6]) -> Raw {
    let [old, old_len, new_len, flags, new, _] = args;
    if touches_engine(old, old_len)
        || (flags & u64::from(linux::MREMAP_FIXED) != 0 && touches_engine(new, new_len))
    {
        return err(errno::EINVAL);
    }
    let mut map_lock = map_lock::acquire();
    if let Some(raw) = hooks::remap(context, &mut map_lock, args) {
        return raw;
    }
    let replaces = flags & u64::from(linux::MREMAP_FIXED) != 0;
    let replaced = replaces.then(|| {
        hooks::replacing(&mut map_lock, new, new_len);
        take_code(&mut map_lock, new, new_len)
    });
    // With a length of zero the mapping is duplicated.
    let removed = take_code(&mut map_lock, old, old_len.max(PAGE));
    let executable = !removed.is_empty();
    // SAFETY: the target's own call on its own memory.
    let raw = unsafe { sys::syscall(linux::__NR_mremap, args) };
    if let Some(replaced) = replaced {
        settle(context, raw, new, new_len, replaced);
    }
    if old_len == 0 || flags & u64::from(linux::MREMAP_DONTUNMAP) != 0 {
        SPACE.lock().put_back(removed);
    } else {
        settle(context, raw, old, old_len, removed);
    }
    if is_err(raw) {
        return raw;
    }
    if executable {
        code_mapped(raw, page_up(new_len), PROT_EXEC | PROT_WRITE);
    }
    raw
}

/// The program break; memory below it may have been made executable.
pub fn brk(wanted: u64) -> Raw {
    let mut map_lock = map_lock::acquire();
    let given_up = SPACE.lock().above_break(wanted);
    take_code(&mut map_lock, given_up.start, given_up.end - given_up.start);
    SPACE.lock().set_break(wanted)
}

pub fn shmat(context: &mut Context, args: [u64; 6]) -> Raw {
    const SHM_REMAP: u64 = 0o40000;
    const SHM_EXEC: u64 = 0o100000;
    const SHM_RDONLY: u64 = 0o10000;
    let [id, addr, flags, ..] = args;
    let len = segment_len(id);
    if addr != 0 && touches_engine(addr, len) {
        return err(errno::EINVAL);
    }
    if addr != 0 {
        give_up_table(addr, len);
    }
    let mut map_lock = map_lock::acquire();
    let replaces = addr != 0 && flags & SHM_REMAP != 0;
    let removed = replaces.then(|| {
        hooks::replacing(&mut map_lock, addr, len);
        take_code(&mut map_lock, addr, len)
    });
    // SAFETY: the target's own call; what it replaces was checked to be the target's.
    let raw = unsafe { sys::syscall(linux::__NR_shmat, args) };
    if let Some(removed) = removed {
        settle(context, raw, addr, len, removed);
    }
    if !is_err(raw) && flags & SHM_EXEC != 0 {
        let write = if flags & SHM_RDONLY == 0 {
            PROT_WRITE
        } else {
            0
        };
        code_mapped(raw, page_up(len), PROT_EXEC | write);
    }
    raw
}

/// Bytes of a System V segment.
fn segment_len(id: u64) -> u64 {
    const IPC_STAT: u64 = 2;
    /// `struct shmid_ds` has the size behind a `struct ipc_perm` of six words.
    const SIZE: usize = 6;
    let mut segment = [0u64; 14];
    // SAFETY: the kernel writes one `struct shmid_ds`, of 14 words.
    let raw = unsafe { crate::sys!(linux::__NR_shmctl, id, IPC_STAT, segment.as_mut_ptr()) };
    if is_err(raw) { 0 } else { segment[SIZE] }
}

pub fn shmdt(context: &mut Context, addr: u64) -> Raw {
    let mut map_lock = map_lock::acquire();
    let len = crate::translator::space::executable_end(addr).map_or(0, |end| end - addr);
    let removed = take_code(&mut map_lock, addr, len);
    // SAFETY: the target's own call on its own memory.
    let raw = unsafe { crate::sys!(linux::__NR_shmdt, addr) };
    settle(context, raw, addr, len, removed);
    raw
}
