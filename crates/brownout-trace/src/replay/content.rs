//! The content of a file, stored in pages. Copies share their pages until one of them is written to.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::digest::Digest;

/// Size of a page, the unit in which content is stored.
pub const PAGE: usize = 4096;

/// Pages per group. Groups are shared as a whole: copying a file's content takes one step per group, not per page.
const GROUP: u64 = 64;

/// Linux keeps file offsets in 63 bits.
pub(super) const MAX_OFFSET: u64 = i64::MAX as u64;

type Page = Arc<[u8; PAGE]>;

/// The bytes of a file. Bytes that were never written are zero. A clone is cheap and independent.
#[derive(Clone, Debug, Default)]
pub struct Content {
    len: u64,
    groups: FxHashMap<u64, Arc<Group>>,
}

#[derive(Clone, Debug)]
struct Group {
    pages: [Option<Page>; GROUP as usize],
    held: u32,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            pages: [const { None }; GROUP as usize],
            held: 0,
        }
    }
}

impl Content {
    /// Length of the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `out` with the bytes from `offset` on. Bytes past the end are zero.
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        out.fill(0);
        let left = self.len.saturating_sub(offset);
        let len = usize::try_from(left).map_or(out.len(), |left| left.min(out.len()));
        for (page, at, range) in pieces(offset, len) {
            if let Some(content) = self.page(page) {
                let count = range.len();
                out[range].copy_from_slice(&content[at..at + count]);
            }
        }
    }

    /// Writes `bytes` at `offset`. Bytes past the end are kept, but become part of the file only when it grows.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        if offset.saturating_add(bytes.len() as u64) > MAX_OFFSET {
            return;
        }
        for (page, at, range) in pieces(offset, bytes.len()) {
            let bytes = &bytes[range];
            if let Some(content) = self.page_mut(page) {
                content[at..at + bytes.len()].copy_from_slice(bytes);
            } else if bytes.iter().any(|&byte| byte != 0) {
                let mut content = [0; PAGE];
                content[at..at + bytes.len()].copy_from_slice(bytes);
                self.insert(page, content);
            }
        }
    }

    /// Sets the length of the file and drops everything past it.
    pub fn resize(&mut self, len: u64) {
        let len = len.min(MAX_OFFSET);
        self.cut(len);
        // The target could store to the rest of the last page, but that was not part of the file.
        let page_end = self.len.next_multiple_of(PAGE as u64);
        self.clear(self.len, page_end.min(len));
        self.len = len;
    }

    /// Extends the file to `len` if it is shorter, and keeps what was stored past its end.
    pub(super) fn grow(&mut self, len: u64) {
        self.len = self.len.max(len.min(MAX_OFFSET));
    }

    /// Sets the length. Drops everything past it, but keeps what was stored past the old end.
    pub(super) fn set_len(&mut self, len: u64) {
        let len = len.min(MAX_OFFSET);
        self.cut(len);
        self.len = len;
    }

    /// A number that is the same only for equal contents. Takes time proportional to the size;
    /// [`Image::digest`](super::Image::digest) does not.
    pub fn digest(&self) -> u128 {
        let mut digest = Digest::default();
        digest.touch_all(self);
        digest.of(self)
    }

    /// The pages that may not be zero, with their numbers.
    pub fn pages(&self) -> impl Iterator<Item = (u64, &[u8; PAGE])> {
        self.groups.iter().flat_map(|(&group, pages)| {
            let numbered = (group * GROUP..).zip(&pages.pages);
            numbered.filter_map(|(number, page)| Some((number, &**page.as_ref()?)))
        })
    }

    /// One page; `None` if all its bytes are zero.
    pub fn page(&self, number: u64) -> Option<&[u8; PAGE]> {
        let group = self.groups.get(&(number / GROUP))?;
        group.pages[(number % GROUP) as usize].as_deref()
    }

    /// The numbers of the pages that may not be equal. Pages that a copy still shares are known to be.
    pub fn pages_unlike(&self, other: &Self) -> Vec<u64> {
        let empty = Group::default();
        let mut unlike = Vec::new();
        let others = other.groups.keys();
        let others = others.filter(|group| !self.groups.contains_key(group));
        for &group in self.groups.keys().chain(others) {
            let [one, other] = [self, other].map(|content| {
                let group = content.groups.get(&group);
                group.map_or(&empty, |group| &**group)
            });
            if std::ptr::eq(one, other) {
                continue;
            }
            let pages = one.pages.iter().zip(&other.pages);
            for (number, pages) in (group * GROUP..).zip(pages) {
                match pages {
                    (None, None) => {}
                    (Some(one), Some(other)) if Arc::ptr_eq(one, other) => {}
                    _ => unlike.push(number),
                }
            }
        }
        unlike
    }

    /// Bytes held in memory for this file.
    pub fn resident(&self) -> u64 {
        let pages: u64 = self
            .groups
            .values()
            .map(|group| u64::from(group.held))
            .sum();
        pages * PAGE as u64
    }

    /// Creates `path` with this content. Pages of zeros become holes.
    pub fn write_file(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        file.set_len(self.len)?;
        let mut pages: Vec<_> = self.pages().collect();
        pages.sort_unstable_by_key(|&(number, _)| number);
        for (number, content) in pages {
            let start = number * PAGE as u64;
            let len = self.len.saturating_sub(start).min(PAGE as u64) as usize;
            let content = &content[..len];
            if content.iter().any(|&byte| byte != 0) {
                file.write_all_at(content, start)?;
            }
        }
        Ok(())
    }

    fn page_mut(&mut self, number: u64) -> Option<&mut [u8; PAGE]> {
        let group = self.groups.get_mut(&(number / GROUP))?;
        let slot = (number % GROUP) as usize;
        group.pages[slot].as_ref()?;
        let page = Arc::make_mut(group).pages[slot].as_mut()?;
        Some(Arc::make_mut(page))
    }

    fn insert(&mut self, number: u64, content: [u8; PAGE]) {
        let group = self.groups.entry(number / GROUP).or_default();
        let group = Arc::make_mut(group);
        let slot = &mut group.pages[(number % GROUP) as usize];
        group.held += u32::from(slot.is_none());
        *slot = Some(Arc::new(content));
    }

    fn remove(&mut self, number: u64) {
        let Some(group) = self.groups.get_mut(&(number / GROUP)) else {
            return;
        };
        let group_of = Arc::make_mut(group);
        let slot = &mut group_of.pages[(number % GROUP) as usize];
        group_of.held -= u32::from(slot.is_some());
        *slot = None;
        if group_of.held == 0 {
            self.groups.remove(&(number / GROUP));
        }
    }

    /// Drops everything past `len`.
    fn cut(&mut self, len: u64) {
        self.clear(len, self.len);
    }

    /// Zeroes the bytes from `from` to `to`. The time is proportional to the smaller of the range and the stored pages.
    pub(super) fn clear(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let size = PAGE as u64;
        let touched = from / size..=(to - 1) / size;
        let held = self.groups.len() as u64 * GROUP;
        let numbers: Vec<u64> = if touched.end() - touched.start() < held {
            touched.filter(|&page| self.page(page).is_some()).collect()
        } else {
            let held = self.pages().map(|(number, _)| number);
            held.filter(|number| touched.contains(number)).collect()
        };
        for page in numbers {
            let start = page * size;
            let first = from.saturating_sub(start).min(size);
            let last = to.saturating_sub(start).min(size);
            if (first, last) == (0, size) {
                self.remove(page);
            } else if let Some(content) = self.page_mut(page) {
                content[first as usize..last as usize].fill(0);
            }
        }
    }
}

/// Splits `len` bytes at `offset` at page boundaries. Returns the page, the offset in it, and the range of the bytes.
pub(super) fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_copies_share_are_known_to_be_equal() {
        let at = |page: u64| page * PAGE as u64;
        let mut one = Content::default();
        one.resize(at(1000));
        one.write(at(3), &[1]);
        one.write(at(4), &[1]);
        one.write(at(500), &[1]);
        let mut other = one.clone();
        assert_eq!(one.pages_unlike(&other), [0; 0]);
        other.write(at(4), &[2]);
        other.write(at(900), &[2]);
        one.write(at(700), &[3]);
        for (one, other) in [(&one, &other), (&other, &one)] {
            let mut unlike = one.pages_unlike(other);
            unlike.sort_unstable();
            assert_eq!(unlike, [4, 700, 900]);
        }
    }
}
