//! `/proc/self/exe`, which must lead to the program and not to the loader.

use super::Outcome;
use crate::context::Context;
use crate::sys::{self, err, errno, linux};
use crate::{guest, pm, process};
use alloc::vec::Vec;

/// Whether the path names the executable of this process.
fn is_own_executable(path: &[u8]) -> bool {
    let Some(rest) = path.strip_prefix(b"/proc/").and_then(|rest| rest.strip_suffix(b"/exe\0")) else {
        return false;
    };
    if rest == b"self" || rest == b"thread-self" {
        return true;
    }
    core::str::from_utf8(rest).ok().and_then(|digits| digits.parse::<u32>().ok()) == Some(sys::getpid())
}

/// Reads a path if it might be one of those that matter.
fn own_executable_at(at: u64) -> bool {
    let mut start = [0u8; 6];
    if guest::read_into(at, &mut start) < start.len() || &start != b"/proc/" {
        return false;
    }
    guest::read_cstr(at, 64).is_ok_and(|path| is_own_executable(&path))
}

pub fn readlink(context: &mut Context, nr: u32, args: [u64; 6], path: u64, buffer: u64, size: u64) -> Outcome {
    if !own_executable_at(path) {
        return pm::syscall(context, nr, args);
    }
    let name = process::executable();
    let len = name.len().min(size as usize);
    Outcome::Done(match guest::write_bytes(buffer, &name[..len]) {
        Ok(()) => len as u64,
        Err(_) => err(errno::EFAULT),
    })
}

pub fn open(context: &mut Context, nr: u32, mut args: [u64; 6], index: usize) -> Outcome {
    if !own_executable_at(args[index]) {
        return pm::syscall(context, nr, args);
    }
    let mut name: Vec<u8> = process::executable();
    name.push(0);
    args[index] = name.as_ptr() as u64;
    if nr == linux::__NR_openat {
        args[0] = linux::AT_FDCWD as u64;
    }
    super::native(u64::from(nr), &args)
}

#[cfg(test)]
mod tests {
    use super::is_own_executable;

    #[test]
    fn own_executable_has_several_names() {
        assert!(is_own_executable(b"/proc/self/exe\0"));
        assert!(is_own_executable(std::format!("/proc/{}/exe\0", std::process::id()).as_bytes()));
        assert!(!is_own_executable(b"/proc/1/exe\0"));
        assert!(!is_own_executable(b"/proc/self/exec\0"));
    }
}
