//! Files that the target writes with system calls and that it need not map. A crash image does not contain them, so the
//! recording names them: each name once in a process.
//!
//! What it can miss: files written through `io_uring` or `io_submit`, and files beyond the first [`MOST`] of a
//! process. Standard streams that the program inherited are left out: they belong to the caller. So are files that were written
//! only before the first candidate was mapped: no crash is tried before that.

use super::file::WriteTarget;
use crate::arch::instruments::pm::syscalls;
use crate::sys::{self, is_err, linux};
use crate::translator::context::Context;
use crate::wire::Head;
use brownout_ring::{WRITTEN_FILE, kind};
use core::sync::atomic::{AtomicU64, Ordering};

/// Names and files that a process remembers; a power of two.
const MOST: usize = 1024;
/// The longest path that the kernel gives.
const PATH: usize = 4096;

/// Digests of the files and names that were noted. A zero is free.
// SAFETY: a section of zeroed memory, which the loader's layout puts behind what is written often.
#[unsafe(link_section = ".bss.tables")]
static NOTED: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];

/// Notes the standard streams, so that writes to them are not.
pub fn create() {
    for fd in 0..3 {
        if let Some(stat) = sys::fstat(fd).filter(is_regular) {
            is_new(file_digest(&stat));
        }
    }
}

/// Notes the file that a call, which succeeded, has written or resized.
pub fn written(context: &mut Context, target: &WriteTarget) {
    note(context, target.fd, &target.stat, Change::Content);
}

/// Notes the file to which a call, which succeeded, has given a name, or that it has resized by its name.
pub fn named(context: &mut Context, nr: u32, args: &[u64; 6]) {
    if let Some((directory, path)) = name(nr, args) {
        // SAFETY: the target's path, which the kernel has just used.
        let opened = unsafe {
            crate::sys!(
                linux::__NR_openat,
                directory,
                path,
                linux::O_PATH | linux::O_NOFOLLOW | linux::O_CLOEXEC,
                0
            )
        };
        if !is_err(opened) {
            if let Some(stat) = sys::fstat(opened as i32) {
                note(context, opened as i32, &stat, Change::Name);
            }
            sys::close(opened as i32);
        }
    }
}

/// The directory and the path of the name that a call has written to or given to a file.
fn name(nr: u32, args: &[u64; 6]) -> Option<(i32, u64)> {
    match nr {
        linux::__NR_truncate => Some((linux::AT_FDCWD, args[0])),
        linux::__NR_renameat | linux::__NR_renameat2 | linux::__NR_linkat => {
            Some((args[2] as i32, args[3]))
        }
        syscalls::RENAME | syscalls::LINK => Some((linux::AT_FDCWD, args[1])),
        _ => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Content,
    /// The file has a name that it may not have had before.
    Name,
}

fn note(context: &mut Context, fd: i32, stat: &linux::stat, change: Change) {
    // A file without a name cannot be in an image.
    if !is_regular(stat) || stat.st_nlink == 0 {
        return;
    }
    if change == Change::Content && !is_new(file_digest(stat)) {
        return;
    }
    let mut buffer = [0u8; PATH];
    let Some(path) = sys::fd_path(fd, &mut buffer) else {
        return;
    };
    if change == Change::Name && !is_new(path.iter().fold(file_digest(stat), digest)) {
        return;
    }
    let head = Head {
        kind: kind::NOTE,
        pc: context.pc,
        ..Head::default()
    };
    let (mut device, mut inode) = ([0u8; 20], [0u8; 20]);
    let parts = [
        WRITTEN_FILE.as_bytes(),
        decimal(stat.st_dev, &mut device),
        b":",
        decimal(stat.st_ino, &mut inode),
        b" ",
        path,
    ];
    context.wire.record(head, &parts);
}

fn is_regular(stat: &linux::stat) -> bool {
    stat.st_mode & linux::S_IFMT == linux::S_IFREG
}

fn file_digest(stat: &linux::stat) -> u64 {
    let bytes = [stat.st_dev.to_le_bytes(), stat.st_ino.to_le_bytes()];
    bytes
        .as_flattened()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, digest)
}

/// One step of FNV-1a.
fn digest(so_far: u64, byte: &u8) -> u64 {
    (so_far ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
}

/// Remembers a digest. False if it was known, or if there is no more space.
fn is_new(digest: u64) -> bool {
    let digest = digest.max(1);
    for step in 0..MOST {
        let entry = &NOTED[(digest as usize).wrapping_add(step) % MOST];
        match entry.compare_exchange(0, digest, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(known) if known == digest => return false,
            Err(_) => {}
        }
    }
    false
}

pub(super) fn decimal(mut number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buffer[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal() {
        assert_eq!(decimal(0, &mut [0; 20]), b"0");
        assert_eq!(decimal(u64::MAX, &mut [0; 20]), b"18446744073709551615");
    }

    #[test]
    fn a_digest_is_new_once() {
        assert!(is_new(7));
        assert!(!is_new(7));
        assert!(
            is_new(7 + MOST as u64),
            "it has the same place in the table"
        );
    }
}
