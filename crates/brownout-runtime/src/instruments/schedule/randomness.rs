//! Random numbers that the target gets from the system: those of the seed.
//!
//! What it can miss: random devices that are read by other calls than `read`, and files that contain random numbers.

use super::switch::with_turns;
use crate::hooks;
use crate::sys::{self, Raw, err, errno, linux};
use crate::translator::context::Context;
use alloc::vec::Vec;

/// Calls that are served here. `read` is attended for [`super::waits`], too.
pub const CALLS: &[u32] = &[linux::__NR_getrandom, linux::__NR_read];

/// Device numbers of `/dev/random` and `/dev/urandom`.
const DEVICES: [u64; 2] = [0x108, 0x109];
/// A file that holds another random name each time it is read.
const NAME_FILE: &[u8] = b"/proc/sys/kernel/random/uuid";
/// Bytes that are written at a time.
const PIECE: u64 = 4096;

/// A random number.
pub fn word() -> u64 {
    with_turns(|turns| turns.random.draw()).unwrap_or(0)
}

/// Serves a call that asks for random numbers; `None` if it does not.
pub fn serve(context: &mut Context, nr: u32, args: &[u64; 6]) -> Option<Raw> {
    let [first, second, third, ..] = *args;
    match nr {
        linux::__NR_getrandom => {
            const KNOWN: u64 = 7;
            if third & !KNOWN != 0 {
                return Some(err(errno::EINVAL));
            }
            Some(fill(context, first, second))
        }
        linux::__NR_read => match source(first as i32)? {
            Source::Device => Some(fill(context, second, third)),
            Source::Name => Some(read_name(context, first as i32, second, third)),
        },
        _ => None,
    }
}

enum Source {
    Device,
    Name,
}

/// What a descriptor gives random bytes from; `None` if it does not.
fn source(fd: i32) -> Option<Source> {
    let stat = sys::fstat(fd)?;
    match stat.st_mode & linux::S_IFMT {
        linux::S_IFCHR if DEVICES.contains(&stat.st_rdev) => Some(Source::Device),
        linux::S_IFREG if stat.st_size == 0 => {
            let mut buffer = [0u8; 64];
            let path = sys::fd_path(fd, &mut buffer)?;
            (path == NAME_FILE).then_some(Source::Name)
        }
        _ => None,
    }
}

/// Writes random bytes for the target.
fn fill(context: &mut Context, at: u64, len: u64) -> Raw {
    let len = len.min(u64::from(u32::MAX >> 1));
    let mut done = 0;
    while done < len {
        let size = PIECE.min(len - done) as usize;
        let bytes: Vec<u8> = (0..size.div_ceil(8))
            .flat_map(|_| word().to_le_bytes())
            .collect();
        if hooks::write(context, at + done, &bytes[..size]).is_err() {
            return if done == 0 { err(errno::EFAULT) } else { done };
        }
        done += size as u64;
    }
    len
}

/// Reads from a file that holds a random name.
fn read_name(context: &mut Context, fd: i32, to: u64, len: u64) -> Raw {
    // SAFETY: asks for the position in the file.
    let position = unsafe { crate::sys!(linux::__NR_lseek, fd, 0, linux::SEEK_CUR) };
    let text = name([word(), word()]);
    let rest = text.get(position as usize..).unwrap_or_default();
    let bytes = &rest[..rest.len().min(len as usize)];
    if hooks::write(context, to, bytes).is_err() {
        return err(errno::EFAULT);
    }
    let next = position.saturating_add(bytes.len() as u64);
    // SAFETY: sets the position in the file to where a read leaves it.
    unsafe { crate::sys!(linux::__NR_lseek, fd, next, linux::SEEK_SET) };
    bytes.len() as u64
}

/// A name of version 4, as the system writes it, with a line end.
fn name(words: [u64; 2]) -> [u8; 37] {
    const VERSION: usize = 14;
    const VARIANT: usize = 19;
    let mut text = [b'-'; 37];
    let digits = words
        .iter()
        .flat_map(|word| (0..16).map(move |at| word >> (4 * at) & 15));
    let places = (0..36).filter(|place| ![8, 13, 18, 23].contains(place));
    for (place, digit) in places.zip(digits) {
        let digit = match place {
            VERSION => 4,
            VARIANT => 8 | digit & 3,
            _ => digit,
        };
        text[place] = b"0123456789abcdef"[digit as usize];
    }
    text[36] = b'\n';
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_form_of_the_system() {
        let text = name([0x0123_4567_89ab_cdef, !0]);
        assert_eq!(&text, b"fedcba98-7654-4210-bfff-ffffffffffff\n");
    }
}
