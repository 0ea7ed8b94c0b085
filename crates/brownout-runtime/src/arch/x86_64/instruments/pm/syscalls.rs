//! What the old system calls that only x86-64 has do to memory and files.

use crate::instruments::pm::kernel::Extent;
use crate::sys::linux;

/// Where calls write: system call, argument, extent.
pub const OUTPUTS: &[(u32, usize, Extent)] = &[
    (linux::__NR_readlink, 1, Extent::Result { limit: 2 }),
    (linux::__NR_stat, 1, Extent::of::<linux::stat>()),
    (linux::__NR_lstat, 1, Extent::of::<linux::stat>()),
    (linux::__NR_time, 0, Extent::of::<i64>()),
    (linux::__NR_pipe, 0, Extent::of::<[i32; 2]>()),
    (
        linux::__NR_epoll_wait,
        1,
        Extent::Elements {
            count: 2,
            size: size_of::<linux::epoll_event>() as u64,
        },
    ),
    (
        linux::__NR_poll,
        0,
        Extent::Array {
            count: 1,
            size: size_of::<linux::pollfd>() as u64,
        },
    ),
];

/// Calls that write no memory of the target.
pub const SILENT: &[u32] = &[
    linux::__NR_open,
    linux::__NR_access,
    linux::__NR_unlink,
    linux::__NR_rename,
    linux::__NR_mkdir,
    linux::__NR_pause,
];

/// The call that creates or truncates a file and opens it.
pub const CREATE: u32 = linux::__NR_creat;

/// Calls that open the file at the path in their first argument.
pub const OPENS: &[u32] = &[linux::__NR_open, CREATE];

/// Calls that look up the path in their first argument.
pub const LOOKS_UP: &[u32] = &[linux::__NR_stat, linux::__NR_lstat, linux::__NR_access];

/// Calls that give a file another name; its path is their second argument.
pub const RENAME: u32 = linux::__NR_rename;
pub const LINK: u32 = linux::__NR_link;
/// The call that takes a name from a file; its path is its first argument.
pub const UNLINK: u32 = linux::__NR_unlink;

/// Calls that change names or attributes of files.
pub const CHANGE_NAMES: &[u32] = &[
    linux::__NR_unlink,
    linux::__NR_rename,
    linux::__NR_link,
    linux::__NR_symlink,
    linux::__NR_mkdir,
    linux::__NR_rmdir,
    linux::__NR_mknod,
    linux::__NR_chmod,
    linux::__NR_chown,
    linux::__NR_lchown,
    linux::__NR_utime,
    linux::__NR_utimes,
];

/// Whether a call that has succeeded opened a file and truncated it.
pub fn truncates(nr: u32, args: &[u64; 6]) -> bool {
    match nr {
        linux::__NR_open => args[1] & u64::from(linux::O_TRUNC) != 0,
        CREATE => true,
        _ => false,
    }
}
