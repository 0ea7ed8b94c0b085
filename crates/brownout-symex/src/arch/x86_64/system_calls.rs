//! What system calls of Linux do with symbolic values: how many arguments they have, what they write to memory, and what they take out of
//! it.
//!
//! Calls that are not here have no arguments and write nothing, as far as replay knows. A byte that one of them overwrites is found when it
//! is loaded and has another value.

/// The registers of the arguments, in the hardware's numbering.
pub const ARGUMENTS: [usize; 6] = [7, 6, 2, 10, 8, 9];

/// How much a call writes to where an argument points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// As much as it returns.
    Result,
    Bytes(u64),
}

/// What is known of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemCall {
    pub arguments: usize,
    /// The argument that points to where the kernel writes.
    pub writes: Option<(usize, Written)>,
    /// The arguments with the descriptor, the address and the length of bytes that leave the program.
    pub sends: Option<(usize, usize, usize)>,
}

/// What is known of the call with a number.
pub fn system_call(number: u64) -> SystemCall {
    const STAT: Written = Written::Bytes(144);
    let plain = |arguments| SystemCall {
        arguments,
        ..SystemCall::default()
    };
    let writing = |arguments, to, written| SystemCall {
        writes: Some((to, written)),
        ..plain(arguments)
    };
    match number {
        // read, pread64, recvfrom, getrandom, getdents64
        0 => writing(3, 1, Written::Result),
        17 => writing(4, 1, Written::Result),
        45 => writing(6, 1, Written::Result),
        318 => writing(3, 0, Written::Result),
        217 => writing(3, 1, Written::Result),
        // getcwd, readlink, readlinkat
        79 => writing(2, 0, Written::Result),
        89 => writing(3, 1, Written::Result),
        267 => writing(4, 2, Written::Result),
        // stat, fstat, lstat, newfstatat
        4..=6 => writing(2, 1, STAT),
        262 => writing(4, 2, STAT),
        // clock_gettime, gettimeofday, pipe, pipe2
        228 => writing(2, 1, Written::Bytes(16)),
        96 => writing(2, 0, Written::Bytes(16)),
        22 => writing(1, 0, Written::Bytes(8)),
        293 => writing(2, 0, Written::Bytes(8)),
        // write, pwrite64, sendto
        1 | 18 | 44 => SystemCall {
            sends: Some((0, 1, 2)),
            ..plain(match number {
                1 => 3,
                18 => 4,
                _ => 6,
            })
        },
        // close, dup, brk, unlink, rmdir, chdir, fsync, fdatasync, umask, syncfs. What a program exits with has no consequences for its
        // path.
        3 | 12 | 32 | 74 | 75 | 80 | 84 | 87 | 95 | 306 => plain(1),
        // munmap, access, kill, rename, mkdir, creat, link, symlink, chmod, ftruncate, truncate, dup2, nanosleep, flock
        11 | 21 | 33 | 35 | 62 | 73 | 76 | 77 | 82 | 83 | 85 | 86 | 88 | 90 => plain(2),
        // open, lseek, mprotect, ioctl, fcntl, madvise, msync, mincore, mkdirat, unlinkat, socket, connect, bind, chown
        2 | 8 | 10 | 16 | 26 | 27 | 28 | 41 | 42 | 49 | 72 | 92 | 258 | 263 => plain(3),
        // readv, writev
        19 | 20 => plain(3),
        // openat, fallocate, renameat, preadv, pwritev, fadvise64
        221 | 257 | 264 | 285 | 295 | 296 => plain(4),
        // mremap, renameat2
        25 | 316 => plain(5),
        // mmap, copy_file_range
        9 | 326 => plain(6),
        _ => SystemCall::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_those_of_arguments_that_the_call_has() {
        for number in 0..512 {
            let call = system_call(number);
            assert!(call.arguments <= ARGUMENTS.len(), "{number}");
            let written = call.writes.map(|it| it.0);
            let sent = call.sends.map(|(fd, at, len)| fd.max(at).max(len));
            let roles = written.into_iter().chain(sent);
            assert!({ roles }.all(|role| role < call.arguments), "{number}");
        }
    }
}
