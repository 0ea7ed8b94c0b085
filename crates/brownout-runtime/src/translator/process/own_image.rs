//! The loader's own image, which `exec` executes. It is found through `/proc`; a process that may lose access to
//! that (`chroot`…) first leaves a copy on the wire.

use crate::sys;
use crate::sys::{Raw, err, errno, is_err, linux};
use crate::wire;
use brownout_ring::{LOADER, LOADER_BYTES};

const PATH: &core::ffi::CStr = c"/proc/self/exe";
const PIECE: usize = 16 << 10;
/// Where in the wire the bytes start.
const BYTES: u64 = LOADER as u64 + 8;

/// Executes the loader with these arguments and this environment. Returns only if that fails.
///
/// # Safety
/// The arrays hold addresses of strings and end with 0.
pub unsafe fn execute(argv: &[u64], envp: &[u64]) -> Raw {
    let (argv, envp) = (argv.as_ptr(), envp.as_ptr());
    // SAFETY: the caller's promise.
    let raw = unsafe { crate::sys!(linux::__NR_execve, PATH.as_ptr(), argv, envp) };
    if raw != err(errno::ENOENT) {
        return raw;
    }
    let Some(fd) = taken_from_wire() else {
        return raw;
    };
    let name = c"".as_ptr();
    // SAFETY: the caller's promise.
    unsafe {
        crate::sys!(
            linux::__NR_execveat,
            fd,
            name,
            argv,
            envp,
            linux::AT_EMPTY_PATH
        )
    };
    sys::close(fd);
    raw
}

/// Leaves a copy of the image on the wire, unless there is one.
///
/// Never inlined: each system call would pay for the buffer, whose pages a fork has copied.
#[inline(never)]
pub fn keep() {
    let to = wire::descriptor();
    if kept_len(to) != 0 {
        return;
    }
    let from = sys::open(PATH, linux::O_RDONLY | linux::O_CLOEXEC);
    if is_err(from) {
        return;
    }
    let len = copy((from as i32, 0), (to, BYTES), LOADER_BYTES as u64 - 8);
    sys::close(from as i32);
    write(to, &len.to_le_bytes(), LOADER as u64);
}

fn kept_len(wire: i32) -> u64 {
    let mut len = [0u8; 8];
    match sys::pread(wire, &mut len, LOADER as u64) {
        8 => u64::from_le_bytes(len),
        _ => 0,
    }
}

/// A file that holds the image, made from the copy.
fn taken_from_wire() -> Option<i32> {
    let from = wire::descriptor();
    let len = Some(kept_len(from)).filter(|&len| len != 0)?;
    // SAFETY: a valid name.
    let fd = unsafe {
        let name = c"brownout".as_ptr();
        crate::sys!(linux::__NR_memfd_create, name, linux::MFD_CLOEXEC)
    };
    let fd = (!is_err(fd)).then_some(fd as i32)?;
    copy((from, BYTES), (fd, 0), len);
    Some(fd)
}

/// Copies at most `limit` bytes between places in files; how many.
fn copy((from, start): (i32, u64), (to, place): (i32, u64), limit: u64) -> u64 {
    let mut piece = [0u8; PIECE];
    let mut done = 0;
    while done < limit {
        let want = PIECE.min((limit - done) as usize);
        let got = sys::pread(from, &mut piece[..want], start + done);
        if is_err(got) || got == 0 || !write(to, &piece[..got as usize], place + done) {
            break;
        }
        done += got;
    }
    done
}

fn write(to: i32, bytes: &[u8], at: u64) -> bool {
    // SAFETY: the bytes are ours.
    let raw = unsafe { crate::sys!(linux::__NR_pwrite64, to, bytes.as_ptr(), bytes.len(), at) };
    raw == bytes.len() as u64
}
