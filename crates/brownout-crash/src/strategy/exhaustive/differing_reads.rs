//! What a run has read, in the parts of which the tree of behaviours consists.

use std::sync::Arc;

use brownout_model::LINE;
use brownout_recovery::{ByteRanges, FirstRead};

use super::behaviours::Read;

/// The parts of a read that are observed and in the file, by lines. Runs need not have been observed with the same bytes wanted.
pub fn observed_parts<'b>(
    read: FirstRead,
    bytes: &'b [u8],
    observed: &Arc<[ByteRanges]>,
    sizes: &[Option<u64>],
) -> impl Iterator<Item = (Read, &'b [u8])> {
    let range = read.offset..read.offset + read.len;
    let parts = observed.get(read.file).map(|known| known.common(range));
    let size = sizes.get(read.file).copied().flatten().unwrap_or(0);
    parts.into_iter().flatten().flat_map(move |part| {
        let from = (part.start - read.offset) as usize;
        // Bytes past the end are zero, whatever the target stored there.
        let end = part.end.min(size).max(part.start);
        let len = end - part.start;
        let read = FirstRead {
            offset: part.start,
            len,
            ..read
        };
        by_line(read, &bytes[from..from + len as usize])
    })
}

/// Splits a read at lines: they persist independently of each other.
fn by_line(read: FirstRead, bytes: &[u8]) -> impl Iterator<Item = (Read, &[u8])> {
    let mut offset = read.offset;
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let len = (LINE - offset % LINE).min(rest.len() as u64);
        let (part, left) = rest.split_at(len as usize);
        let read = Read {
            file: read.file as u32,
            len: len as u32,
            offset,
        };
        offset += len;
        rest = left;
        (len > 0).then_some((read, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_divided_at_lines_and_ends_with_the_file() {
        let mut observed = ByteRanges::exact();
        observed.insert(8..16);
        observed.insert(60..300);
        let observed: Arc<[ByteRanges]> = [observed].into();
        let read = FirstRead {
            file: 0,
            offset: 4,
            len: 196,
        };
        let bytes: Vec<u8> = (4..200).collect();
        let parts = |size| -> Vec<(u64, u8, usize)> {
            let sizes = [size];
            let parts = observed_parts(read, &bytes, &observed, &sizes);
            parts
                .map(|(read, bytes)| (read.offset, bytes[0], bytes.len()))
                .collect()
        };
        let all = [
            (8, 8, 8),
            (60, 60, 4),
            (64, 64, 64),
            (128, 128, 64),
            (192, 192, 8),
        ];
        assert_eq!(parts(Some(4096)), all);
        assert_eq!(parts(Some(70)), [(8, 8, 8), (60, 60, 4), (64, 64, 6)]);
        assert_eq!(parts(None), []);
    }
}
