//! System calls that read explored files, made by the runtime: `read`, `pread`, `readv` and `preadv`, and `sendfile` to a standard
//! stream.

use super::calls::{buffers, has_own_position};
use super::file_reads::OpenedFile;
use super::mailbox;
use crate::instruments;
use crate::instruments::pm::candidate::access_mode;
use crate::instruments::pm::candidates;
use crate::sys::{err, errno, is_err, linux};
use crate::target_memory;
use crate::translator::context::Context;
use alloc::vec::Vec;
use brownout_ring::explore::shared_effect;
use core::ops::Range;

/// The kernel reads no more at once.
const MOST: u64 = 0x7fff_f000;
/// The kernel takes no more buffers at once.
const MOST_BUFFERS: u64 = 1024;
/// The position of `preadv2` that stands for the descriptor's own.
const OWN_POSITION: u64 = u64::MAX;

/// Where a call begins to read.
#[derive(Clone, Copy)]
enum Position {
    /// At the position of the descriptor, which moves.
    Own,
    At(u64),
    /// At the position at this address, which moves.
    InMemory(u64),
}

/// Whether a call that reads a file leaves copies of the process independent of each other.
pub fn is_private(nr: u32, args: &[u64; 6]) -> bool {
    let moves_own = || matches!(position(nr, args), Position::Own);
    match nr {
        linux::__NR_pread64 | linux::__NR_preadv => true,
        // With flags, it may depend on what is in the page cache.
        linux::__NR_preadv2 if args[5] != 0 => false,
        _ => !moves_own() || has_own_position(source(nr, args)),
    }
}

/// The descriptor that a call reads from.
pub fn source(nr: u32, args: &[u64; 6]) -> u64 {
    match nr {
        linux::__NR_sendfile => args[1],
        _ => args[0],
    }
}

fn position(nr: u32, args: &[u64; 6]) -> Position {
    match nr {
        linux::__NR_pread64 | linux::__NR_preadv => Position::At(args[3]),
        linux::__NR_preadv2 if args[3] != OWN_POSITION => Position::At(args[3]),
        linux::__NR_sendfile if args[2] != 0 => Position::InMemory(args[2]),
        _ => Position::Own,
    }
}

/// Reads from an explored file for the process; `None` if it is another file, or an error or an empty read that the kernel reports.
pub fn read(context: &mut Context, nr: u32, args: &[u64; 6]) -> Option<u64> {
    let into = match nr {
        linux::__NR_sendfile => Vec::new(),
        linux::__NR_read | linux::__NR_pread64 => [(args[1], args[2])].into(),
        _ if args[2] > MOST_BUFFERS => return None,
        _ => match buffers(context, args[1], args[2]) {
            Some(buffers) => buffers,
            None => return Some(err(errno::EFAULT)),
        },
    };
    let in_candidate =
        |&(at, len): &(u64, u64)| !candidates::overlapping(at, at.saturating_add(len)).is_empty();
    if into.iter().any(in_candidate) {
        mailbox::give_up(shared_effect::CALL, nr);
    }
    let file = OpenedFile::of(source(nr, args))?;
    let len = match nr {
        linux::__NR_sendfile => args[3],
        _ => total_length(&into)?,
    };
    if access_mode(file.fd) == Some(linux::O_WRONLY) || len == 0 {
        return None;
    }
    let position = position(nr, args);
    let offset = match position {
        Position::Own => seek(file.fd, 0)?,
        Position::At(offset) => offset,
        Position::InMemory(at) => match target_memory::read(at) {
            Ok(offset) => offset,
            Err(_) => return Some(err(errno::EFAULT)),
        },
    };
    if (offset as i64) < 0 {
        return None;
    }
    let end = offset.saturating_add(len.min(MOST)).min(file.size);
    let range = offset..end.max(offset);
    file.decide(context, &range);
    let done = match nr {
        linux::__NR_sendfile => file.copy(&range, nr, |bytes| {
            mailbox::put_output(args[0] as u8, bytes);
            true
        }),
        _ => fill(context, &file, &range, nr, &into),
    };
    if done == 0 && !range.is_empty() {
        return Some(err(errno::EFAULT));
    }
    match position {
        Position::Own => seek(file.fd, done).map(|_| done),
        Position::At(_) => Some(done),
        Position::InMemory(at) => {
            let moved = instruments::write_value(context, at, &(offset + done));
            Some(moved.map_or(err(errno::EFAULT), |()| done))
        }
    }
}

/// The length of all buffers together; `None` if the kernel refuses one.
fn total_length(buffers: &[(u64, u64)]) -> Option<u64> {
    buffers.iter().try_fold(0u64, |sum, &(_, len)| {
        let is_length = len as i64 >= 0;
        is_length.then(|| sum.saturating_add(len))
    })
}

/// Copies a range of the file to buffers, one after the other; how much, if one cannot be written.
fn fill(
    context: &mut Context,
    file: &OpenedFile,
    range: &Range<u64>,
    nr: u32,
    buffers: &[(u64, u64)],
) -> u64 {
    let mut at = range.start;
    for &(buffer, len) in buffers {
        let part = at..at.saturating_add(len).min(range.end);
        let mut to = buffer;
        at += file.copy(&part, nr, |bytes| {
            let written = instruments::write(context, to, bytes).is_ok();
            to += bytes.len() as u64;
            written
        });
        if at < part.end {
            break;
        }
    }
    at - range.start
}

/// Moves the position of a descriptor, and returns it.
fn seek(fd: i32, by: u64) -> Option<u64> {
    // SAFETY: changes nothing but the position.
    let raw = unsafe { crate::sys!(linux::__NR_lseek, fd, by, linux::SEEK_CUR) };
    (!is_err(raw)).then_some(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_length_is_left_to_the_kernel() {
        assert_eq!(total_length(&[(0, 3), (9, 4)]), Some(7));
        assert_eq!(total_length(&[(0, 3), (9, u64::MAX)]), None);
        let most = i64::MAX as u64;
        assert_eq!(
            total_length(&[(0, most), (0, most), (0, most)]),
            Some(u64::MAX)
        );
    }
}
