//! Reads what mapped files hold at the end of the recording, for readers of the trace to compare with what they rebuild.

use brownout_trace::FileIdentity;
use brownout_trace::replay::{FinalContent, PAGE};
use rustix::fs::SeekFrom;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Pages read at a time.
const WINDOW: usize = 64;
/// A file with more separate mapped ranges is not compared.
const MAX_RANGES: usize = 1024;

/// The parts of a file that were ever mapped: ranges of bytes, in order and without overlap.
#[derive(Debug, Default)]
pub(crate) struct MappedRanges(Vec<Range<u64>>);

impl MappedRanges {
    /// Adds a range.
    pub(crate) fn add(&mut self, range: Range<u64>) {
        let first = self.0.partition_point(|known| known.end < range.start);
        let last = self.0.partition_point(|known| known.start <= range.end);
        let touched = &self.0[first..last];
        let start = touched.first().map_or(range.start, |known| known.start);
        let end = touched.last().map_or(range.end, |known| known.end);
        let merged = start.min(range.start)..end.max(range.end);
        self.0.splice(first..last, [merged]);
    }

    /// What `file` holds in these ranges; `None` if it is not the file with this identity, or cannot be compared.
    pub(crate) fn content(
        &self,
        file: &File,
        identity: FileIdentity,
    ) -> io::Result<Option<FinalContent>> {
        let metadata = file.metadata()?;
        let is_same = (metadata.dev(), metadata.ino()) == (identity.dev, identity.ino);
        if !is_same || !metadata.is_file() || self.0.len() > MAX_RANGES {
            return Ok(None);
        }
        let mut content = FinalContent::new(identity, &self.0);
        for mapped in &self.0 {
            add_data(file, mapped, &mut content)?;
        }
        Ok(Some(content))
    }
}

/// Adds the pages of a range that are not holes.
fn add_data(file: &File, range: &Range<u64>, content: &mut FinalContent) -> io::Result<()> {
    let mut pages = vec![[0; PAGE]; WINDOW];
    let last = range.end.div_ceil(PAGE as u64);
    let mut at = range.start;
    while let Some(data) = data_from(file, at)?.filter(|data| data.start < range.end) {
        let mut page = data.start / PAGE as u64;
        let end = data.end.div_ceil(PAGE as u64).min(last);
        while page < end {
            let count = WINDOW.min((end - page) as usize);
            let window = &mut pages[..count];
            read_padded(file, page * PAGE as u64, window.as_flattened_mut())?;
            for (number, bytes) in (page..).zip(&*window) {
                content.add(number, bytes);
            }
            page += count as u64;
        }
        at = end * PAGE as u64;
        if at >= range.end {
            break;
        }
    }
    Ok(())
}

/// The next part of a file that is not a hole.
fn data_from(file: &File, at: u64) -> io::Result<Option<Range<u64>>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(rustix::io::Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
    Ok(Some(start..end))
}

/// Fills `out` from the file; bytes past its end are zero.
fn read_padded(file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < out.len() {
        match file.read_at(&mut out[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    out[done..].fill(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use brownout_trace::replay::Content;

    #[test]
    fn ranges_are_merged() {
        let mut ranges = MappedRanges::default();
        for range in [10..20, 40..50, 20..25, 0..5, 60..70, 22..45] {
            ranges.add(range);
        }
        assert_eq!(ranges.0, [0..5, 10..50, 60..70]);
    }

    #[test]
    fn a_file_is_compared_in_what_was_mapped() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        file.write_all_at(b"data", 4090).unwrap();
        file.write_all_at(b"data", 1 << 39).unwrap();
        let metadata = file.metadata().unwrap();
        let identity = FileIdentity {
            dev: metadata.dev(),
            ino: metadata.ino(),
        };
        let mut ranges = MappedRanges::default();
        ranges.add(0..8192);
        let content = ranges.content(&file, identity).unwrap().unwrap();
        let mut image = Content::default();
        image.resize(1 << 40);
        assert_eq!(content.difference(&image), Some(0..4096));
        image.write(4090, b"data");
        assert_eq!(content.difference(&image), None);
        let other = FileIdentity { ino: 0, ..identity };
        assert_eq!(ranges.content(&file, other).unwrap(), None);
    }
}
