//! The memory of the client of a target that is a server: a part of the wire's memfd that is used only if [`crate::option::CLIENT`] is set.
//!
//! Before the start, the engine writes where the input is. The process that listens becomes the owner: it connects to itself, and says how
//! far the client has come.

use crate::fuzz::PathText;
use crate::path;
use core::sync::atomic::AtomicU32;

/// Offset of [`ClientPage`] in the memfd, and the bytes reserved for it.
pub const PAGE: usize = path::END;
pub const PAGE_BYTES: usize = size_of::<ClientPage>().next_multiple_of(4096);
/// The end of what is reserved.
pub const END: usize = PAGE + PAGE_BYTES;

/// Between parts of an input that are sent over connections of their own: a line of two percent signs.
pub const DIVIDER: &[u8] = b"\n%%\n";

/// What the target and the engine share.
#[repr(C)]
pub struct ClientPage {
    /// The file that holds the input.
    pub input: PathText,
    /// Id of the process that has the client; 0 until one has.
    pub owner: AtomicU32,
    /// The signal that the process got last because its input was consumed; 0 before.
    pub ended: AtomicU32,
}

/// The parts of an input, by where they begin and end. The line break before a divider belongs to the part.
pub fn divide(input: &[u8]) -> impl Iterator<Item = (usize, usize)> + '_ {
    let mut next = Some(0);
    core::iter::from_fn(move || {
        let start = next?;
        let mut windows = input[start..].windows(DIVIDER.len());
        let found = windows.position(|window| window == DIVIDER);
        next = found.map(|at| start + at + DIVIDER.len());
        Some((start, found.map_or(input.len(), |at| start + at + 1)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(input: &str) -> [Option<&str>; 4] {
        let mut parts = divide(input.as_bytes());
        [(); 4].map(|()| parts.next().map(|(start, end)| &input[start..end]))
    }

    #[test]
    fn a_line_of_two_percent_signs_divides_an_input() {
        assert_eq!(parts("a\nb"), [Some("a\nb"), None, None, None]);
        assert_eq!(
            parts("a\n%%\nb\n%%\n"),
            [Some("a\n"), Some("b\n"), Some(""), None]
        );
        assert_eq!(
            parts("a%%\nb\n%% \n"),
            [Some("a%%\nb\n%% \n"), None, None, None]
        );
        assert_eq!(parts(""), [Some(""), None, None, None]);
    }
}
