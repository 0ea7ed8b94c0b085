//! Where system calls write: the table of calls whose results go to a buffer first.

use crate::arch::instruments::pm::syscalls;
use crate::sys::linux;

/// How many bytes the kernel writes at an argument.
#[derive(Clone, Copy)]
pub enum Extent {
    /// As many as the result says, at most what another argument allows.
    Result {
        limit: usize,
    },
    Fixed(u64),
    /// The result times this, at most another argument times this.
    Elements {
        count: usize,
        size: u64,
    },
    /// Another argument times this.
    Array {
        count: usize,
        size: u64,
    },
}

impl Extent {
    /// The size of a type.
    pub const fn of<T>() -> Extent {
        Extent::Fixed(size_of::<T>() as u64)
    }
}

/// System call, argument, extent. Sizes that are written out are the same on all 64-bit architectures.
const OUTPUTS: &[(u32, usize, Extent)] = &[
    (linux::__NR_read, 1, Extent::Result { limit: 2 }),
    (linux::__NR_pread64, 1, Extent::Result { limit: 2 }),
    (linux::__NR_recvfrom, 1, Extent::Result { limit: 2 }),
    (linux::__NR_getrandom, 0, Extent::Result { limit: 1 }),
    (linux::__NR_getcwd, 0, Extent::Result { limit: 1 }),
    (linux::__NR_readlinkat, 2, Extent::Result { limit: 3 }),
    (linux::__NR_getdents64, 1, Extent::Result { limit: 2 }),
    (linux::__NR_getxattr, 2, Extent::Result { limit: 3 }),
    (linux::__NR_fgetxattr, 2, Extent::Result { limit: 3 }),
    (
        linux::__NR_sched_getaffinity,
        2,
        Extent::Result { limit: 1 },
    ),
    (linux::__NR_uname, 0, Extent::Fixed(390)),
    (linux::__NR_fstat, 1, Extent::of::<linux::stat>()),
    (linux::__NR_newfstatat, 2, Extent::of::<linux::stat>()),
    (linux::__NR_statx, 4, Extent::of::<linux::statx>()),
    (
        linux::__NR_clock_gettime,
        1,
        Extent::of::<linux::__kernel_timespec>(),
    ),
    (
        linux::__NR_gettimeofday,
        0,
        Extent::of::<linux::__kernel_old_timeval>(),
    ),
    (linux::__NR_sysinfo, 0, Extent::Fixed(112)),
    (linux::__NR_times, 0, Extent::Fixed(32)),
    (linux::__NR_getrusage, 1, Extent::of::<linux::rusage>()),
    (linux::__NR_wait4, 1, Extent::of::<i32>()),
    (linux::__NR_pipe2, 0, Extent::of::<[i32; 2]>()),
    (
        linux::__NR_epoll_pwait,
        1,
        Extent::Elements {
            count: 2,
            size: size_of::<linux::epoll_event>() as u64,
        },
    ),
];

/// Calls whose arguments are addresses to be managed, not memory to be used.
pub const BY_ADDRESS: &[u32] = &[
    linux::__NR_madvise,
    linux::__NR_msync,
    linux::__NR_mlock,
    linux::__NR_mlock2,
    linux::__NR_munlock,
    linux::__NR_mincore,
    linux::__NR_mbind,
    linux::__NR_set_mempolicy,
    linux::__NR_process_madvise,
    linux::__NR_userfaultfd,
];

/// Calls that write no memory of the target, even if a register points there: comparing would take another
/// thread's stores for the kernel's.
const SILENT: &[u32] = &[
    linux::__NR_write,
    linux::__NR_pwrite64,
    linux::__NR_sendto,
    linux::__NR_openat,
    linux::__NR_close,
    linux::__NR_lseek,
    linux::__NR_faccessat,
    linux::__NR_unlinkat,
    linux::__NR_fsync,
    linux::__NR_fdatasync,
    linux::__NR_sync,
    linux::__NR_syncfs,
    linux::__NR_sync_file_range,
    linux::__NR_ftruncate,
    linux::__NR_fallocate,
    linux::__NR_flock,
    linux::__NR_sched_yield,
    linux::__NR_getpid,
    linux::__NR_gettid,
    linux::__NR_getppid,
    linux::__NR_kill,
    linux::__NR_tgkill,
    linux::__NR_membarrier,
];

/// How many bytes a call writes at an argument, if it is one of those whose results go to a buffer first.
pub fn output(nr: u32, argument: usize) -> Option<Extent> {
    let mut outputs = OUTPUTS.iter().chain(syscalls::OUTPUTS);
    let known = outputs.find(|&&(call, index, _)| (call, index) == (nr, argument));
    known.map(|&(_, _, extent)| extent)
}

/// Whether a call writes no memory of the target.
pub fn is_silent(nr: u32) -> bool {
    SILENT.contains(&nr) || syscalls::SILENT.contains(&nr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_writes_whole_structures() {
        let size = |nr, argument| match output(nr, argument) {
            Some(Extent::Fixed(size)) => size,
            _ => 0,
        };
        assert_eq!(size(linux::__NR_statx, 4), 256);
        assert_eq!(size(linux::__NR_getrusage, 1), 144);
        assert_eq!(size(linux::__NR_clock_gettime, 1), 16);
        assert_eq!(size(linux::__NR_gettimeofday, 0), 16);
    }
}
