//! The bytes of a finding, in as few ranges as possible.

use crate::ByteRange;

/// The ranges in order, with those joined that touch or overlap.
pub fn merged(ranges: &[ByteRange]) -> Vec<ByteRange> {
    let mut sorted: Vec<&ByteRange> = ranges.iter().collect();
    sorted.sort_by(|a, b| (&a.file, a.offset).cmp(&(&b.file, b.offset)));
    let mut merged: Vec<ByteRange> = Vec::new();
    for range in sorted {
        let end = range.offset.saturating_add(range.len);
        match merged.last_mut() {
            Some(last)
                if last.file == range.file
                    && range.offset <= last.offset.saturating_add(last.len) =>
            {
                last.len = last.len.max(end - last.offset);
            }
            _ => merged.push(range.clone()),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_become_one() {
        let range = |file: &str, offset, len| ByteRange {
            file: file.into(),
            offset,
            len,
        };
        let ranges = [
            range("b", 0, 8),
            range("a", 8, 8),
            range("a", 0, 8),
            range("a", 12, 2),
            range("a", 32, 8),
        ];
        assert_eq!(
            merged(&ranges),
            [range("a", 0, 16), range("a", 32, 8), range("b", 0, 8)]
        );
        assert_eq!(merged(&[]), []);
    }
}
