//! The objects of pools, as far as calls of the library show where they begin and end.
//!
//! Can miss: objects of earlier runs, except for the root, and those of functions that store the identifier somewhere instead of
//! returning it.

use std::collections::BTreeMap;

use brownout_model::PmAddress;
use brownout_trace::{FileId, FileRange};

/// Objects that do not overlap. Memory that the library reuses belongs to the newer object, so there are never more than fit into
/// the pools.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    /// The ends, by file and start.
    ends: BTreeMap<(FileId, u64), u64>,
}

impl Objects {
    pub(crate) fn add(&mut self, object: FileRange) {
        let (file, start) = (object.file, object.offset);
        let end = start.saturating_add(object.len);
        while let Some((&older, &older_end)) = self.ends.range(..(file, end)).next_back()
            && older.0 == file
            && older_end > start
        {
            if (older.1, older_end) == (start, end) {
                // Freed and allocated again, which is most frequent.
                return;
            }
            self.ends.remove(&older);
        }
        if start < end {
            self.ends.insert((file, start), end);
        }
    }

    /// Where the object begins that a byte belongs to.
    pub(crate) fn start_of(&self, byte: PmAddress) -> Option<u64> {
        let file = FileId(byte.space.0);
        let (&(of, start), &end) = self.ends.range(..=(file, byte.offset)).next_back()?;
        (of == file && byte.offset < end).then_some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brownout_model::SpaceId;

    fn object(file: u32, offset: u64, len: u64) -> FileRange {
        let file = FileId(file);
        FileRange { file, offset, len }
    }

    fn start(objects: &Objects, file: u32, offset: u64) -> Option<u64> {
        let space = SpaceId(file);
        objects.start_of(PmAddress { space, offset })
    }

    #[test]
    fn bytes_belong_to_the_object_around_them() {
        let mut objects = Objects::default();
        objects.add(object(1, 64, 32));
        objects.add(object(1, 96, 8));
        assert_eq!(start(&objects, 1, 63), None);
        assert_eq!(start(&objects, 1, 64), Some(64));
        assert_eq!(start(&objects, 1, 95), Some(64));
        assert_eq!(start(&objects, 1, 96), Some(96));
        assert_eq!(start(&objects, 1, 104), None);
        assert_eq!(start(&objects, 2, 64), None);
    }

    #[test]
    fn reused_memory_belongs_to_the_newer_object() {
        let mut objects = Objects::default();
        objects.add(object(1, 64, 32));
        objects.add(object(1, 96, 32));
        objects.add(object(1, 128, 32));
        objects.add(object(1, 128, 32));
        objects.add(object(1, 80, 40));
        assert_eq!(start(&objects, 1, 70), None);
        assert_eq!(start(&objects, 1, 119), Some(80));
        assert_eq!(start(&objects, 1, 120), None);
        assert_eq!(start(&objects, 1, 128), Some(128));
    }
}
