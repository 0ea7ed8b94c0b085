//! Rebuilds the files of a trace as they were at any event, in program order.
//!
//! [`Images`] applies events one by one from the start of the trace. It stores only pages that were written, so its cost
//! depends on what the target wrote, not on the size of the files.
//!
//! ```
//! use brownout_trace::replay::Images;
//! use brownout_trace::{AppPc, ContextId, Event, EventIndex, EventKind, FileId, ProcessId, ThreadId};
//!
//! let event = |kind| Event {
//!     index: EventIndex(0),
//!     process: ProcessId(0),
//!     thread: ThreadId(100),
//!     pc: AppPc(0),
//!     context: ContextId::ROOT,
//!     kind,
//! };
//! let file = FileId(0);
//! let mut images = Images::default();
//! images.apply(&event(EventKind::FileResize { file, len: 4 }));
//! images.apply(&event(EventKind::Content { file, offset: 0, bytes: b"old!" }));
//! images.apply(&event(EventKind::FileWrite { file, offset: 0, bytes: b"new", syscall: 1 }));
//!
//! let mut bytes = [0; 4];
//! images.file(file).unwrap().content().read(0, &mut bytes);
//! assert_eq!(&bytes, b"new!");
//! ```

mod content;
mod digest;
mod final_content;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::address_space::AddressSpace;
use crate::definitions::Definitions;
use crate::event::{Event, EventKind, Mapping, ProcessOrigin};
use crate::ids::{Address, FileId, ProcessId};

use content::{MAX_OFFSET, pieces};
use digest::Digest;

pub use content::{Content, PAGE};
pub use final_content::FinalContent;

/// The content of all files of a trace at one event.
#[derive(Debug, Default)]
pub struct Images {
    files: HashMap<FileId, Image>,
    spaces: HashMap<ProcessId, Arc<AddressSpace>>,
    maps: u64,
    unmapped: u64,
}

/// One file. Bytes that no event has set are zero.
#[derive(Debug, Default)]
pub struct Image {
    content: Content,
    digest: Digest,
    last_mapped: u64,
}

/// A file that [`Images::write_to`] has created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenImage {
    /// The file.
    pub file: FileId,
    /// Its path.
    pub path: PathBuf,
    /// Its length in bytes.
    pub len: u64,
}

impl Images {
    /// Files that have these contents before the first event, of which no event tells the content.
    pub fn with_contents(contents: impl IntoIterator<Item = (FileId, Content)>) -> Self {
        let mut images = Self::default();
        for (file, known) in contents {
            let image = images.files.entry(file).or_default();
            image.change(|content| *content = known);
        }
        images
    }

    /// Applies the next event.
    pub fn apply(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Store { addr, bytes, .. } | EventKind::KernelWrite { addr, bytes, .. } => {
                self.store(event.process, addr, bytes);
            }
            EventKind::FileWrite {
                file,
                offset,
                bytes,
                ..
            } => {
                let image = self.files.entry(file).or_default();
                image.write(offset, bytes);
                let end = offset.saturating_add(bytes.len() as u64);
                if !bytes.is_empty() && end <= MAX_OFFSET {
                    image.content.grow(end);
                }
            }
            EventKind::FileResize { file, len } => {
                let image = self.files.entry(file).or_default();
                image.change(|content| content.resize(len));
            }
            EventKind::Content {
                file,
                offset,
                bytes,
            } => {
                self.files.entry(file).or_default().write(offset, bytes);
            }
            EventKind::Map(mapping) => self.map(event.process, mapping),
            EventKind::Unmap { addr, len } => self.space(event.process).unmap(addr, len),
            EventKind::Remap {
                old,
                old_len,
                new,
                new_len,
            } => {
                self.space(event.process).remap(old, old_len, new, new_len);
            }
            EventKind::ProcessStart { parent, origin, .. } => {
                let inherited = match origin {
                    ProcessOrigin::Exec => None,
                    ProcessOrigin::Fork => parent.and_then(|parent| self.spaces.get(&parent)),
                };
                let space = inherited.cloned().unwrap_or_default();
                self.spaces.insert(event.process, space);
            }
            EventKind::ProcessExit { .. } => {
                self.spaces.remove(&event.process);
            }
            EventKind::Load { .. }
            | EventKind::Flush { .. }
            | EventKind::Fence { .. }
            | EventKind::Sync(_)
            | EventKind::Protect { .. }
            | EventKind::Module { .. }
            | EventKind::ThreadStart { .. }
            | EventKind::ThreadJoin { .. }
            | EventKind::LockAcquire { .. }
            | EventKind::LockRelease { .. }
            | EventKind::ThreadExit
            | EventKind::Note { .. }
            | EventKind::Call { .. }
            | EventKind::Return { .. } => {}
        }
    }

    /// All files with their content.
    pub fn files(&self) -> impl Iterator<Item = (FileId, &Image)> {
        self.files.iter().map(|(&file, image)| (file, image))
    }

    /// The content of a file.
    pub fn file(&self, file: FileId) -> Option<&Image> {
        self.files.get(&file)
    }

    /// The content of a file, for modification.
    pub fn file_mut(&mut self, file: FileId) -> Option<&mut Image> {
        self.files.get_mut(&file)
    }

    /// The number of stores that went at least partly to addresses where nothing was mapped.
    pub fn unmapped_stores(&self) -> u64 {
        self.unmapped
    }

    /// Writes the files that `select` accepts as sparse files, each at `dir` followed by its absolute path. If several files
    /// had the same path one after the other, the last one is written.
    pub fn write_to(
        &self,
        dir: &Path,
        definitions: &Definitions,
        mut select: impl FnMut(FileId) -> bool,
    ) -> io::Result<Vec<WrittenImage>> {
        let mut chosen: HashMap<PathBuf, (FileId, &Image)> = HashMap::new();
        for (&file, image) in &self.files {
            let Some(known) = definitions.file(file).filter(|_| select(file)) else {
                continue;
            };
            let holder = chosen
                .entry(below(dir, &known.path))
                .or_insert((file, image));
            if image.last_mapped > holder.1.last_mapped {
                *holder = (file, image);
            }
        }
        let mut written = Vec::new();
        for (path, (file, image)) in chosen {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            image.content.write_file(&path)?;
            written.push(WrittenImage {
                file,
                path,
                len: image.content.len(),
            });
        }
        written.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(written)
    }

    fn map(&mut self, process: ProcessId, mapping: Mapping) {
        let stale = if mapping.snapshot {
            self.stale_ranges(&mapping)
        } else {
            Vec::new()
        };
        self.space(process).map(mapping);
        self.maps += 1;
        let image = self.files.entry(mapping.file).or_default();
        image.last_mapped = self.maps;
        // A file that is mapped again has usually not changed.
        if !stale.is_empty() || image.content.len() != mapping.file_len {
            image.change(|content| {
                for range in stale {
                    content.clear(range.start, range.end);
                }
                content.set_len(mapping.file_len);
            });
        }
    }

    /// The parts of a newly mapped file that no process had mapped until now: they may have changed without an event. The
    /// content of mapped parts is known, and may be newer than the snapshot.
    fn stale_ranges(&self, mapping: &Mapping) -> Vec<Range<u64>> {
        let end = mapping.offset.saturating_add(mapping.len);
        let mut known: Vec<Range<u64>> = self
            .spaces
            .values()
            .flat_map(|space| space.mappings())
            .filter(|other| other.file == mapping.file)
            .map(|other| other.offset..other.offset.saturating_add(other.len))
            .collect();
        known.sort_unstable_by_key(|range| range.start);
        known.push(end..end);
        let mut stale = Vec::new();
        let mut from = mapping.offset;
        for range in known {
            if from < range.start.min(end) {
                stale.push(from..range.start.min(end));
            }
            from = from.max(range.end);
        }
        stale
    }

    fn space(&mut self, process: ProcessId) -> &mut AddressSpace {
        Arc::make_mut(self.spaces.entry(process).or_default())
    }

    fn store(&mut self, process: ProcessId, addr: Address, bytes: &[u8]) {
        let space = self.spaces.get(&process);
        let (mut addr, mut rest) = (addr, bytes);
        while !rest.is_empty() {
            let range = space.and_then(|space| space.resolve(addr, rest.len() as u64));
            let Some(range) = range else {
                self.unmapped += 1;
                return;
            };
            let (now, later) = rest.split_at(range.len as usize);
            self.files
                .entry(range.file)
                .or_default()
                .write(range.offset, now);
            addr = Address(addr.0.wrapping_add(range.len));
            rest = later;
        }
    }
}

impl Image {
    /// The current bytes. Cloning them is cheap.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// A number that is the same only for equal contents. Takes time proportional to what has changed since the last call.
    pub fn digest(&mut self) -> u128 {
        self.digest.of(&self.content)
    }

    /// The digest of `variant`, which differs from the content of this file only in `pages` (each listed once).
    pub fn digest_of_variant(
        &mut self,
        variant: &Content,
        pages: impl Iterator<Item = u64>,
    ) -> u128 {
        self.digest();
        self.digest.of_variant(variant, pages)
    }

    /// The number of this file's last mapping, counted over all files. If two files had the same path, the one with the
    /// higher number had it later.
    pub fn last_mapped(&self) -> u64 {
        self.last_mapped
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (page, ..) in pieces(offset, bytes.len()) {
            self.digest.touch(page);
        }
        self.content.write(offset, bytes);
    }

    /// Applies a change that may affect any page.
    fn change(&mut self, change: impl FnOnce(&mut Content)) {
        self.digest.touch_all(&self.content);
        change(&mut self.content);
        self.digest.touch_all(&self.content);
    }
}

/// `path` inside `dir`, even if it contains `..`.
fn below(dir: &Path, path: &Path) -> PathBuf {
    let mut out = dir.to_owned();
    out.extend(
        path.components()
            .filter(|part| matches!(part, Component::Normal(_))),
    );
    out
}
