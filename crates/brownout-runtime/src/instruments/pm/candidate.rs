//! Which mappings are candidates: those that may turn out to be persistent memory.

use crate::sys::{self, is_err, linux};
use crate::wire;

const PROT_READ: u64 = linux::PROT_READ as u64;
const PROT_WRITE: u64 = linux::PROT_WRITE as u64;

/// Whether a mapping about to be made is a candidate: shared, of a regular file or a DAX device that
/// the target may write. If what the target reads is observed, it need not be able to write.
pub fn is_candidate(prot: u64, flags: u64, fd: i32) -> bool {
    let shared = matches!(flags & 0xf, 1 | 3);
    // Executions that are only counted are not recorded.
    if wire::wants_fuzz() || !shared || flags & u64::from(linux::MAP_ANONYMOUS) != 0 || fd < 0 {
        return false;
    }
    let Some(stat) = sys::fstat(fd) else {
        return false;
    };
    let kind = stat.st_mode & linux::S_IFMT;
    let is_observed = match access_mode(fd) {
        Some(linux::O_RDWR) => true,
        Some(linux::O_RDONLY) => wire::wants_reads() && prot == PROT_READ,
        _ => false,
    };
    let device = kind == linux::S_IFCHR && is_dax_device(&stat);
    is_observed
        && (kind == linux::S_IFREG || device)
        && (prot & PROT_WRITE != 0 || prot & PROT_READ != 0)
}

/// The rights with which a file is open.
pub(crate) fn access_mode(fd: i32) -> Option<u32> {
    // SAFETY: asks for flags.
    let mode = unsafe { crate::sys!(linux::__NR_fcntl, fd, linux::F_GETFL) };
    (!is_err(mode)).then_some(mode as u32 & linux::O_ACCMODE)
}

/// A device of the `dax` class.
fn is_dax_device(stat: &linux::stat) -> bool {
    let (major, minor) = (
        (stat.st_rdev >> 8) & 0xfff,
        stat.st_rdev & 0xff | (stat.st_rdev >> 12) & 0xfff00,
    );
    let mut buffer = [0u8; 256];
    let link = alloc::format!("/sys/dev/char/{major}:{minor}/subsystem\0");
    let Ok(name) = core::ffi::CStr::from_bytes_with_nul(link.as_bytes()) else {
        return false;
    };
    // SAFETY: a valid string and a buffer of the stated length.
    let raw = unsafe {
        crate::sys!(
            linux::__NR_readlinkat,
            linux::AT_FDCWD,
            name.as_ptr(),
            buffer.as_mut_ptr(),
            buffer.len()
        )
    };
    !is_err(raw) && buffer[..raw as usize].ends_with(b"/dax")
}

/// Whether the file behind a descriptor is accessed directly.
pub(crate) fn is_dax_file(fd: i32) -> bool {
    const STATX_ATTR_DAX: u64 = 0x20_0000;
    let mut statx = core::mem::MaybeUninit::<linux::statx>::zeroed();
    // SAFETY: the kernel writes one `statx`.
    let raw = unsafe {
        crate::sys!(
            linux::__NR_statx,
            fd,
            c"".as_ptr(),
            linux::AT_EMPTY_PATH,
            0,
            statx.as_mut_ptr()
        )
    };
    // SAFETY: zeroed is a valid `statx`.
    !is_err(raw) && unsafe { statx.assume_init() }.stx_attributes & STATX_ATTR_DAX != 0
}
