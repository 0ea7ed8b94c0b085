//! The address-to-type map: which objects of known types persistent files hold at a time of the run.
//!
//! An object inside another is part of it (C1 of Squint §4.4.3): of two that overlap, the one whose type contains the other stays.
//! If neither does, the memory is used for something else now.

use std::collections::BTreeMap;

use brownout_symbols::{DataTypeId, DataTypes};
use brownout_trace::FileId;
use rustc_hash::FxHashMap;

use super::ObjectId;

/// An object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LiveObject {
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) ty: DataTypeId,
}

/// Why an object is taken to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectEvidence {
    /// Code uses it as such.
    Used,
    /// A pointer to it was stored.
    Referred,
}

/// The objects in all files. Those of a file do not overlap.
#[derive(Debug, Default)]
pub(super) struct LiveObjects {
    files: FxHashMap<FileId, BTreeMap<u64, LiveObject>>,
    /// Objects of which it became known only later that they are part of another one, with that one.
    pub(super) absorbed: Vec<(FileId, LiveObject, LiveObject)>,
}

impl LiveObjects {
    /// The object with the bytes at `offset`.
    pub(super) fn at(&self, file: FileId, offset: u64) -> Option<LiveObject> {
        let objects = self.files.get(&file)?;
        let (_, found) = objects.range(..=offset).next_back()?;
        (offset - found.start < found.size).then_some(*found)
    }

    /// Adds an object of at least `size` bytes. Returns the outermost one that is there now; `None` if the evidence does not
    /// suffice to contradict what is known.
    pub(super) fn add(
        &mut self,
        ObjectId { file, offset }: ObjectId,
        ty: DataTypeId,
        size: u64,
        evidence: ObjectEvidence,
        types: &DataTypes,
    ) -> Option<LiveObject> {
        let new = LiveObject {
            start: offset,
            size: types.get(ty).size.max(size),
            ty,
        };
        let end = new.start.checked_add(new.size)?;
        if new.size == 0 {
            return None;
        }
        if let Some(known) = self.at(file, new.start)
            && types.contains(known.ty, new.start - known.start, ty)
        {
            return Some(self.grow(file, known, end));
        }
        let overlapping = self.overlapping(file, new.start, end);
        let is_part = |known: &LiveObject| {
            let within = known.start.checked_sub(new.start);
            within.is_some_and(|within| types.contains(ty, within, known.ty))
        };
        if evidence == ObjectEvidence::Referred && !overlapping.iter().all(is_part) {
            return None;
        }
        let objects = self.files.entry(file).or_default();
        for known in overlapping {
            objects.remove(&known.start);
            if is_part(&known) {
                self.absorbed.push((file, known, new));
            }
        }
        objects.insert(new.start, new);
        Some(new)
    }

    /// Makes an object with a flexible end reach to `end`, as far as there is no other.
    fn grow(&mut self, file: FileId, known: LiveObject, end: u64) -> LiveObject {
        if end <= known.start + known.size {
            return known;
        }
        let objects = self.files.entry(file).or_default();
        let next = objects.range(known.start + 1..).next();
        let end = next.map_or(end, |(&next, _)| end.min(next));
        let grown = LiveObject {
            size: end - known.start,
            ..known
        };
        objects.insert(known.start, grown);
        grown
    }

    fn overlapping(&self, file: FileId, start: u64, end: u64) -> Vec<LiveObject> {
        let before = self.at(file, start).filter(|known| known.start < start);
        let Some(objects) = self.files.get(&file) else {
            return Vec::new();
        };
        let inside = objects.range(start..end).map(|(_, known)| *known);
        before.into_iter().chain(inside).collect()
    }

    /// Ends all objects that have bytes in a range: the memory was allocated or freed.
    pub(super) fn end(&mut self, file: FileId, start: u64, len: u64) {
        for known in self.overlapping(file, start, start.saturating_add(len)) {
            if let Some(objects) = self.files.get_mut(&file) {
                objects.remove(&known.start);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use tempfile::TempDir;

    use super::*;

    const FILE: FileId = FileId(0);

    /// The structs `outer`, which has an `inner` at 8, and `other`.
    struct Structs {
        types: DataTypes,
        outer: DataTypeId,
        inner: DataTypeId,
        other: DataTypeId,
        _directory: TempDir,
    }

    fn structs() -> Structs {
        let directory = tempfile::tempdir().unwrap();
        let source = "struct inner { long a, b; };
            struct outer { long first; struct inner inner; };
            struct other { int x[3]; };
            struct outer outer; struct other other;";
        fs::write(directory.path().join("structs.c"), source).unwrap();
        let compiled = Command::new("cc")
            .args(["-g", "-shared", "-o", "structs.so", "structs.c"])
            .current_dir(directory.path())
            .status();
        assert!(compiled.unwrap().success());
        let mut types = DataTypes::new();
        let module = types.add_module(&directory.path().join("structs.so"), None);
        let [outer, inner, other] = ["outer", "inner", "other"]
            .map(|name| types.named(module, name).expect("the struct is described"));
        Structs {
            types,
            outer,
            inner,
            other,
            _directory: directory,
        }
    }

    fn at(offset: u64) -> ObjectId {
        ObjectId { file: FILE, offset }
    }

    #[test]
    fn an_inner_object_is_part_of_the_outer_one() {
        let known = structs();
        let types = &known.types;
        let mut live = LiveObjects::default();
        let inner = live.add(at(108), known.inner, 0, ObjectEvidence::Used, types);
        assert_eq!(inner.map(|object| object.ty), Some(known.inner));
        // The outer object takes the place of the inner one, which is found as the outer one from then on.
        let outer = live.add(at(100), known.outer, 0, ObjectEvidence::Used, types);
        assert_eq!(live.absorbed.len(), 1);
        assert_eq!(
            outer.map(|object| (object.start, object.size)),
            Some((100, 24))
        );
        assert_eq!(
            live.add(at(108), known.inner, 0, ObjectEvidence::Used, types),
            outer
        );
        assert_eq!((live.at(FILE, 123), live.at(FILE, 124)), (outer, None));
        assert_eq!(live.at(FileId(1), 108), None);
    }

    #[test]
    fn memory_that_is_used_for_another_type_changes_its_object() {
        let known = structs();
        let types = &known.types;
        let mut live = LiveObjects::default();
        let outer = live.add(at(100), known.outer, 0, ObjectEvidence::Used, types);
        // A pointer alone does not show that; it may be stale.
        let referred = live.add(at(104), known.other, 0, ObjectEvidence::Referred, types);
        assert_eq!((referred, live.at(FILE, 104)), (None, outer));
        let used = live.add(at(104), known.other, 0, ObjectEvidence::Used, types);
        assert_eq!((live.at(FILE, 104), live.at(FILE, 100)), (used, None));
        // Where nothing is known, a pointer suffices.
        let referred = live.add(at(200), known.other, 0, ObjectEvidence::Referred, types);
        assert_eq!(live.at(FILE, 211), referred);
        assert!(referred.is_some());
    }

    #[test]
    fn an_object_ends_when_its_memory_is_freed() {
        let known = structs();
        let mut live = LiveObjects::default();
        live.add(at(100), known.outer, 0, ObjectEvidence::Used, &known.types);
        live.end(FILE, 124, 8);
        assert!(live.at(FILE, 100).is_some());
        live.end(FILE, 123, 8);
        assert_eq!(live.at(FILE, 100), None);
    }
}
