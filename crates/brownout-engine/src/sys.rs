//! System calls of the recorder. This is the only module of the crate with `unsafe` code, and the only one that uses libc: for
//! calls that rustix does not have, or has only for callers that guarantee as much.
//!
//! Each submodule wraps one group of calls in functions that are safe for any arguments. What they cannot check, they take
//! as typed values (`&File`, `&AtomicU32`) instead of raw numbers.

pub(crate) mod memory;
pub(crate) mod process;
pub(crate) mod ring_map;
pub(crate) mod signals;

use std::io;

/// Turns the usual "-1 and errno" into a `Result`.
fn checked<T: PartialEq + From<i8>>(result: T) -> io::Result<T> {
    if result == T::from(-1) {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
