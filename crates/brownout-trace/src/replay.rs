//! Rebuilds the files of a trace as they were, in program order, at any event.
//!
//! [`Images`] takes events one by one from the start of the trace. It holds pages that were
//! touched, so its cost follows what the program wrote, never how large a file is.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::address_space::AddressSpace;
use crate::definitions::Definitions;
use crate::event::{Event, EventKind, Mapping, ProcessOrigin};
use crate::ids::{Address, FileId, ProcessId};

const PAGE: usize = 4096;

/// Linux keeps file offsets in 63 bits.
const MAX_OFFSET: u64 = i64::MAX as u64;

/// The content of all files of a trace at one event.
#[derive(Debug, Default)]
pub struct Images {
    files: HashMap<FileId, Image>,
    spaces: HashMap<ProcessId, Arc<AddressSpace>>,
    maps: u64,
    unmapped: u64,
}

/// The content of one file; what no event told is zero.
#[derive(Debug, Default)]
pub struct Image {
    len: u64,
    pages: HashMap<u64, Box<[u8; PAGE]>>,
    /// Counts mappings of all files, to tell which of two files came later under the same path.
    last_mapped: u64,
}

/// A file that [`Images::write_to`] made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenImage {
    pub file: FileId,
    pub path: PathBuf,
    pub len: u64,
}

impl Images {
    /// Takes the next event.
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
                if !bytes.is_empty() && end <= MAX_OFFSET && end > image.len {
                    image.len = end;
                }
            }
            EventKind::FileResize { file, len } => self.files.entry(file).or_default().resize(len),
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
            | EventKind::ThreadStart
            | EventKind::ThreadExit
            | EventKind::Note { .. }
            | EventKind::Call { .. }
            | EventKind::Return { .. } => {}
        }
    }

    pub fn files(&self) -> impl Iterator<Item = (FileId, &Image)> {
        self.files.iter().map(|(&file, image)| (file, image))
    }

    pub fn file(&self, file: FileId) -> Option<&Image> {
        self.files.get(&file)
    }

    /// Stores that went, in whole or in part, to an address where nothing was mapped.
    pub fn unmapped_stores(&self) -> u64 {
        self.unmapped
    }

    /// Writes the files that `select` accepts, sparse, each at `dir` followed by its absolute path.
    /// Of several files that had the same path one after the other, the last is written.
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
            image.write_file(&path)?;
            written.push(WrittenImage {
                file,
                path,
                len: image.len,
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
        for range in stale {
            image.clear(range.start, range.end);
        }
        image.cut(mapping.file_len);
        image.len = mapping.file_len.min(MAX_OFFSET);
    }

    /// The parts of the file behind a new mapping that no process had mapped until now: they may have
    /// changed unseen. What is mapped is known, and may hold more than the snapshot saw.
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
    /// Length of the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `out` with the bytes from `offset` on; what lies past the end is zero.
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        out.fill(0);
        let left = self.len.saturating_sub(offset);
        let len = usize::try_from(left).map_or(out.len(), |left| left.min(out.len()));
        for (page, at, range) in pieces(offset, len) {
            if let Some(content) = self.pages.get(&page) {
                let count = range.len();
                out[range].copy_from_slice(&content[at..at + count]);
            }
        }
    }

    /// Bytes held in memory for this file.
    pub fn resident(&self) -> u64 {
        (self.pages.len() * PAGE) as u64
    }

    /// Creates `path` with this content, leaving holes where there is nothing but zeros.
    pub fn write_file(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        file.set_len(self.len)?;
        let mut pages: Vec<_> = self.pages.iter().collect();
        pages.sort_unstable_by_key(|(number, _)| **number);
        for (&number, content) in pages {
            let start = number * PAGE as u64;
            let len = self.len.saturating_sub(start).min(PAGE as u64) as usize;
            let content = &content[..len];
            if content.iter().any(|&byte| byte != 0) {
                file.write_all_at(content, start)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        if offset.saturating_add(bytes.len() as u64) > MAX_OFFSET {
            return;
        }
        for (page, at, range) in pieces(offset, bytes.len()) {
            let bytes = &bytes[range];
            if let Some(content) = self.pages.get_mut(&page) {
                content[at..at + bytes.len()].copy_from_slice(bytes);
            } else if bytes.iter().any(|&byte| byte != 0) {
                let mut content = Box::new([0; PAGE]);
                content[at..at + bytes.len()].copy_from_slice(bytes);
                self.pages.insert(page, content);
            }
        }
    }

    fn resize(&mut self, len: u64) {
        let len = len.min(MAX_OFFSET);
        self.cut(len);
        // The rest of the last page could be stored to, but was not part of the file.
        let page_end = self.len.next_multiple_of(PAGE as u64);
        self.clear(self.len, page_end.min(len));
        self.len = len;
    }

    /// Forgets what lies past `len`.
    fn cut(&mut self, len: u64) {
        self.clear(len, self.len);
    }

    /// Zeroes the bytes from `from` to `to`, in time that follows the smaller of the range and what is
    /// held.
    fn clear(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let touched = from / PAGE as u64..=(to - 1) / PAGE as u64;
        if touched.end() - touched.start() < self.pages.len() as u64 {
            for page in touched {
                if let Some(content) = self.pages.get_mut(&page)
                    && !clear_page(page, content, from, to)
                {
                    self.pages.remove(&page);
                }
            }
        } else {
            self.pages
                .retain(|&page, content| clear_page(page, content, from, to));
        }
    }
}

/// Zeroes what lies between two file offsets; false when nothing else is in the page.
fn clear_page(page: u64, content: &mut [u8; PAGE], from: u64, to: u64) -> bool {
    let size = PAGE as u64;
    let start = page * size;
    let first = from.saturating_sub(start).min(size);
    let last = to.saturating_sub(start).min(size);
    if first < last {
        content[first as usize..last as usize].fill(0);
    }
    (first, last) != (0, size)
}

/// Cuts `len` bytes at `offset` at page borders: the page, where in it, and which of the bytes.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let position = offset.checked_add(done as u64)?;
        let at = (position % PAGE as u64) as usize;
        let count = (PAGE - at).min(len - done);
        let piece = (position / PAGE as u64, at, done..done + count);
        done += count;
        Some(piece)
    })
}

/// `path` inside `dir`, whatever `..` it contains.
fn below(dir: &Path, path: &Path) -> PathBuf {
    let mut out = dir.to_owned();
    out.extend(
        path.components()
            .filter(|part| matches!(part, Component::Normal(_))),
    );
    out
}
