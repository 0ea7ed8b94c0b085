//! Paths under `/proc` that would show the loader or the engine instead of the target.

use crate::hooks;
use crate::sys;
use crate::sys::{err, errno, linux};
use crate::target_memory;
use crate::translator::context::Context;
use crate::translator::process;
use crate::translator::syscall::Outcome;
use alloc::vec::Vec;

/// Whether the path names the executable of this process.
pub fn is_own_executable(path: &[u8]) -> bool {
    let Some(rest) = path
        .strip_prefix(b"/proc/")
        .and_then(|rest| rest.strip_suffix(b"/exe\0"))
    else {
        return false;
    };
    if rest == b"self" || rest == b"thread-self" {
        return true;
    }
    core::str::from_utf8(rest)
        .ok()
        .and_then(|digits| digits.parse::<u32>().ok())
        == Some(sys::getpid())
}

/// Reads a path if it might be one of those that matter.
fn process_path_at(at: u64) -> Option<Vec<u8>> {
    let mut start = [0u8; 6];
    if target_memory::read_into(at, &mut start) < start.len() || &start != b"/proc/" {
        return None;
    }
    target_memory::read_cstr(at, 64).ok()
}

fn own_executable_at(at: u64) -> bool {
    process_path_at(at).is_some_and(|path| is_own_executable(&path))
}

pub fn readlink(
    context: &mut Context,
    nr: u32,
    args: [u64; 6],
    path: u64,
    buffer: u64,
    size: u64,
) -> Outcome {
    if !own_executable_at(path) {
        return hooks::syscall(context, nr, args);
    }
    let name = process::executable();
    let len = name.len().min(size as usize);
    Outcome::Done(match hooks::write(context, buffer, &name[..len]) {
        Ok(()) => len as u64,
        Err(_) => err(errno::EFAULT),
    })
}

pub fn open(context: &mut Context, nr: u32, mut args: [u64; 6], index: usize) -> Outcome {
    if let Some(path) = process_path_at(args[index])
        && path == b"/proc/self/auxv\0"
    {
        return Outcome::Done(open_auxv());
    }
    if !own_executable_at(args[index]) {
        return hooks::syscall(context, nr, args);
    }
    let mut name: Vec<u8> = process::executable();
    name.push(0);
    args[index] = name.as_ptr() as u64;
    if nr == linux::__NR_openat {
        args[0] = linux::AT_FDCWD as u64;
    }
    crate::translator::syscall::native(u64::from(nr), &args)
}

/// Lists a directory; in those of descriptors, the engine's own is not shown.
pub fn getdents(context: &mut Context, args: [u64; 6]) -> Outcome {
    let outcome = hooks::syscall(context, linux::__NR_getdents64, args);
    let Outcome::Done(raw) = outcome else {
        return outcome;
    };
    let mut buffer = [0u8; 64];
    let listed = |path: &[u8]| {
        path.starts_with(b"/proc/") && (path.ends_with(b"/fd") || path.ends_with(b"/fdinfo"))
    };
    if sys::is_err(raw) || !sys::fd_path(args[0] as i32, &mut buffer).is_some_and(listed) {
        return outcome;
    }
    let mut entries = alloc::vec![0u8; raw as usize];
    if target_memory::read_into(args[1], &mut entries) != entries.len() {
        return outcome;
    }
    let kept = without_entry(&entries, crate::wire::descriptor());
    if kept.len() == entries.len() || hooks::write(context, args[1], &kept).is_err() {
        return outcome;
    }
    Outcome::Done(kept.len() as u64)
}

/// The `linux_dirent64` entries without the one that is named like a descriptor.
fn without_entry(entries: &[u8], descriptor: i32) -> Vec<u8> {
    const NAME: usize = 19;
    let mut kept = Vec::with_capacity(entries.len());
    let mut rest = entries;
    while rest.len() > NAME {
        let len = usize::from(u16::from_le_bytes([rest[16], rest[17]])).clamp(NAME, rest.len());
        let (entry, following) = rest.split_at(len);
        let name = entry[NAME..].split(|&b| b == 0).next().unwrap_or_default();
        if core::str::from_utf8(name)
            .ok()
            .and_then(|digits| digits.parse().ok())
            != Some(descriptor)
        {
            kept.extend_from_slice(entry);
        }
        rest = following;
    }
    kept
}

/// A file with the auxiliary vector as the target has it; the kernel's copy is the loader's.
fn open_auxv() -> u64 {
    let vector = process::auxiliary();
    // SAFETY: a valid name; the bytes written are ours.
    unsafe {
        let fd = crate::sys!(
            linux::__NR_memfd_create,
            c"auxv".as_ptr(),
            linux::MFD_CLOEXEC
        );
        if !sys::is_err(fd) {
            crate::sys!(linux::__NR_pwrite64, fd, vector.as_ptr(), vector.len(), 0);
        }
        fd
    }
}

#[cfg(test)]
mod tests {
    use super::is_own_executable;

    #[test]
    fn own_executable_has_several_names() {
        assert!(is_own_executable(b"/proc/self/exe\0"));
        assert!(is_own_executable(
            std::format!("/proc/{}/exe\0", std::process::id()).as_bytes()
        ));
        assert!(!is_own_executable(b"/proc/1/exe\0"));
        assert!(!is_own_executable(b"/proc/self/exec\0"));
    }
}
