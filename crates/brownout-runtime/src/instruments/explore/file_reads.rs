//! Reads of explored files that are no loads: those of system calls ([`read_calls`](super::read_calls)), and private mappings that
//! cannot be written, all of which may be read. Open bytes are decided first; then the process gets what the file holds for it.
//!
//! Pages with open bytes get their alias even if they are not mapped, so that what was decided is kept there. Other pages are
//! read where they are mapped, or from the file.

use super::mapping::{PageContent, add_aliases};
use super::{STATE, decide, mailbox};
use crate::instruments::pm::candidates::Candidate;
use crate::memory::PAGE;
use crate::sys::{self, linux};
use crate::target_memory;
use crate::translator::context::Context;
use brownout_ring::FileAt;
use brownout_ring::explore::shared_effect;
use core::ops::Range;

/// The part of the flags of `mmap` that says whether a mapping is shared.
const KIND: u64 = 0xf;
/// An explored file that is open.
#[derive(Clone, Copy)]
pub struct OpenedFile {
    dev: u64,
    ino: u64,
    pub fd: i32,
    pub size: u64,
}

impl OpenedFile {
    pub fn of(fd: u64) -> Option<OpenedFile> {
        let stat = sys::fstat(fd as i32)?;
        STATE.lock().file_of(stat.st_dev, stat.st_ino)?;
        Some(OpenedFile {
            dev: stat.st_dev,
            ino: stat.st_ino,
            fd: fd as i32,
            size: stat.st_size as u64,
        })
    }

    /// Asks for the open bytes of a range.
    pub fn decide(&self, context: &mut Context, range: &Range<u64>) {
        for (page, part) in pages(range) {
            let Some(alias) = self.alias(page, &part) else {
                continue;
            };
            let mapping = Candidate {
                start: alias,
                end: alias + PAGE,
                delta: 0,
                file: FileAt {
                    dev: self.dev,
                    ino: self.ino,
                    offset: page,
                },
                prot: u64::from(linux::PROT_READ),
            };
            let at = alias + (part.start - page);
            decide(context, &mapping, at, (part.end - part.start) as usize);
        }
    }

    /// The alias of a page, if a part of the page has open bytes.
    fn alias(&self, page: u64, part: &Range<u64>) -> Option<u64> {
        let mut state = STATE.lock();
        let (_, file) = state.file_of(self.dev, self.ino)?;
        file.open(part.start, (part.end - part.start) as usize)?;
        if let PageContent::File = file.mappings.content(page) {
            add_aliases(self.fd, file, page..page + PAGE);
        }
        match file.mappings.content(page) {
            PageContent::Memory(alias) => Some(alias),
            PageContent::File | PageContent::Gone => None,
        }
    }

    /// Hands a range to `take`, a page at a time, until that refuses one; how many bytes it has taken. Ends the branch if the
    /// content of a page is not known any more.
    pub fn copy(&self, range: &Range<u64>, nr: u32, mut take: impl FnMut(&[u8]) -> bool) -> u64 {
        let mut done = 0;
        let mut bytes = alloc::vec![0; PAGE as usize];
        for (page, part) in pages(range) {
            let bytes = &mut bytes[..(part.end - part.start) as usize];
            if !self.copy_page(page, &part, bytes) {
                mailbox::give_up(shared_effect::CALL, nr);
            }
            if !take(bytes) {
                break;
            }
            done += bytes.len() as u64;
        }
        done
    }

    /// Copies a part of a page to `bytes`. False if its content is not known any more.
    fn copy_page(&self, page: u64, part: &Range<u64>, bytes: &mut [u8]) -> bool {
        let mut state = STATE.lock();
        let Some((_, file)) = state.file_of(self.dev, self.ino) else {
            return false;
        };
        match file.mappings.content(page) {
            PageContent::Memory(address) => {
                let at = address + (part.start - page);
                target_memory::read_into(at, bytes) == bytes.len()
            }
            PageContent::File => sys::pread(self.fd, bytes, part.start) == bytes.len() as u64,
            PageContent::Gone => false,
        }
    }
}

/// The parts of a range on each page, with the beginning of the page.
fn pages(range: &Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> + use<> {
    let (mut at, end) = (range.start, range.end);
    core::iter::from_fn(move || {
        let page = at - at % PAGE;
        let part = at..(page + PAGE).min(end);
        at = part.end;
        (!part.is_empty()).then_some((page, part))
    })
}

/// The process is about to make a mapping. If it is a private one of an explored file, all of it may be read.
pub fn before_map(context: &mut Context, args: &[u64; 6]) {
    let [start, len, prot, flags, fd, offset] = *args;
    if flags & u64::from(linux::MAP_FIXED) != 0 {
        unmapped(start, len);
    }
    let is_shared = matches!(flags & KIND, 1 | 3);
    if is_shared || flags & u64::from(linux::MAP_ANONYMOUS) != 0 {
        return;
    }
    if let Some(file) = OpenedFile::of(fd) {
        if prot & u64::from(linux::PROT_WRITE) != 0 {
            // What is stored there would have to stay out of the file.
            mailbox::give_up(shared_effect::MAPPING, 0);
        }
        let end = offset.saturating_add(len).min(file.size);
        file.decide(context, &(offset..end));
    }
}

/// A range of addresses was unmapped or is about to be replaced.
pub fn unmapped(start: u64, len: u64) {
    let end = start.saturating_add(len);
    for file in &mut STATE.lock().files {
        file.mappings.lose(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_range_is_split_at_pages() {
        let parts: Vec<_> = pages(&(4090..8200)).collect();
        let expected = [(0, 4090..4096), (4096, 4096..8192), (8192, 8192..8200)];
        assert_eq!(parts, expected);
        let nothing = 5..5;
        assert_eq!(pages(&nothing).count(), 0);
    }
}
