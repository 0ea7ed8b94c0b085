//! Names of mapped files that change: calls that rename, link and unlink. A crash finds a file under the names that it has
//! then, so the recorder follows them. It decides which changes concern a mapped file or a directory above one.
//!
//! What it can miss: names that `io_uring` changes, names in other mount namespaces, and changes by processes that are not
//! recorded.

use super::{PathAt, stat_at};
use crate::arch::instruments::pm::syscalls;
use crate::instruments::events::calling_context;
use crate::instruments::pm::candidates;
use crate::plain_data::PlainData;
use crate::sys::{self, is_err, linux};
use crate::target_memory;
use crate::translator::context::Context;
use crate::wire::Head;
use alloc::vec::Vec;
use brownout_ring::{FileAt, kind, name};

/// The longest path that the kernel gives.
const PATH: usize = 4096;

/// A call that changes names.
#[derive(Clone, Copy)]
enum Change {
    Rename {
        old: PathAt,
        new: PathAt,
        exchange: bool,
    },
    Link {
        new: PathAt,
    },
    Unlink {
        old: PathAt,
    },
}

fn change(nr: u32, args: &[u64; 6]) -> Option<Change> {
    const HERE: i32 = linux::AT_FDCWD;
    let (old, new) = ((args[0] as i32, args[1]), (args[2] as i32, args[3]));
    Some(match nr {
        linux::__NR_renameat2 => Change::Rename {
            old,
            new,
            exchange: args[4] & u64::from(linux::RENAME_EXCHANGE) != 0,
        },
        linux::__NR_renameat => Change::Rename {
            old,
            new,
            exchange: false,
        },
        linux::__NR_linkat => Change::Link { new },
        linux::__NR_unlinkat if args[2] & u64::from(linux::AT_REMOVEDIR) == 0 => {
            Change::Unlink { old }
        }
        syscalls::RENAME => Change::Rename {
            old: (HERE, args[0]),
            new: (HERE, args[1]),
            exchange: false,
        },
        syscalls::LINK => Change::Link {
            new: (HERE, args[1]),
        },
        syscalls::UNLINK => Change::Unlink {
            old: (HERE, args[0]),
        },
        _ => return None,
    })
}

/// Whether a call, which is about to be made, replaces a file that is not mapped: what that file holds is not known.
pub fn replaces_unknown(nr: u32, args: &[u64; 6]) -> bool {
    match change(nr, args) {
        Some(Change::Rename {
            new,
            exchange: false,
            ..
        }) => stat_at(new, linux::AT_SYMLINK_NOFOLLOW).is_some_and(|stat| {
            stat.st_mode & linux::S_IFMT == linux::S_IFREG
                && !candidates::is_known_file(stat.st_dev, stat.st_ino)
        }),
        _ => false,
    }
}

/// Records the change of names that a call, which succeeded, has made.
pub fn changed(context: &mut Context, nr: u32, args: &[u64; 6], replaced_unknown: bool) {
    let nowhere = FileAt {
        dev: 0,
        ino: 0,
        offset: 0,
    };
    match change(nr, args) {
        Some(Change::Rename { old, new, exchange }) => {
            let flags = match (exchange, replaced_unknown) {
                (true, _) => name::EXCHANGED,
                (false, true) => name::RENAMED | name::REPLACED_UNKNOWN,
                (false, false) => name::RENAMED,
            };
            if let (Some(old), Some(new)) = (absolute(old), absolute(new)) {
                record(context, flags, nowhere, &old, &new);
            }
        }
        Some(Change::Link { new }) => {
            let known = stat_at(new, linux::AT_SYMLINK_NOFOLLOW)
                .filter(|stat| candidates::is_known_file(stat.st_dev, stat.st_ino))
                .zip(absolute(new));
            if let Some((stat, new)) = known {
                let file = FileAt {
                    dev: stat.st_dev,
                    ino: stat.st_ino,
                    offset: 0,
                };
                record(context, name::LINKED, file, b"", &new);
            }
        }
        Some(Change::Unlink { old }) => {
            if let Some(old) = absolute(old) {
                record(context, name::UNLINKED, nowhere, &old, b"");
            }
        }
        None => {}
    }
}

fn record(context: &mut Context, flags: u16, file: FileAt, old: &[u8], new: &[u8]) {
    let caller = calling_context::context_of(context);
    let head = Head {
        kind: kind::NAME,
        flags,
        pc: context.pc,
        context: caller,
        addr: 0,
    };
    context
        .wire
        .record(head, &[file.as_bytes(), old, b"\0", new]);
}

/// The absolute path of a name, whether or not anything has that name.
fn absolute((directory, path): PathAt) -> Option<Vec<u8>> {
    let mut text = target_memory::read_cstr(path, PATH).ok()?;
    let base = split_name(&mut text)?;
    // SAFETY: opens a directory by a valid C string, which the kernel only reads.
    let opened = unsafe {
        crate::sys!(
            linux::__NR_openat,
            directory,
            text.as_ptr(),
            linux::O_PATH | linux::O_DIRECTORY | linux::O_CLOEXEC,
            0
        )
    };
    if is_err(opened) {
        return None;
    }
    let mut buffer = [0u8; PATH];
    let parent = sys::fd_path(opened as i32, &mut buffer).map(<[u8]>::to_vec);
    sys::close(opened as i32);
    let mut whole = parent?;
    if whole.last() != Some(&b'/') {
        whole.push(b'/');
    }
    whole.extend_from_slice(&base);
    Some(whole)
}

/// Shortens a path, which ends with a NUL, to that of the directory. Returns the last component, without a NUL.
fn split_name(text: &mut Vec<u8>) -> Option<Vec<u8>> {
    text.pop();
    while text.len() > 1 && text.last() == Some(&b'/') {
        text.pop();
    }
    let start = text
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or(0, |at| at + 1);
    let base = text.split_off(start);
    if text.is_empty() {
        text.push(b'.');
    }
    text.push(0);
    let is_name = !base.is_empty() && base != b"." && base != b"..";
    is_name.then_some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_into_directory_and_name() {
        for (path, directory, base) in [
            (&b"pool\0"[..], &b".\0"[..], Some(&b"pool"[..])),
            (b"/pool\0", b"/\0", Some(b"pool")),
            (b"a/b/c\0", b"a/b/\0", Some(b"c")),
            (b"a/b//\0", b"a/\0", Some(b"b")),
            (b"a/..\0", b"a/\0", None),
            (b"/\0", b"/\0", None),
            (b"\0", b".\0", None),
        ] {
            let mut text = path.to_vec();
            assert_eq!(split_name(&mut text).as_deref(), base);
            assert_eq!(text, directory);
        }
    }
}
