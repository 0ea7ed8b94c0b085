//! Mappings of explored files: private to the process.
//!
//! Pages with open bytes get an *alias*, which is where they really are, and are candidates: the process cannot access them
//! unobserved. All mappings of such a page share its alias, so that they show the same bytes, also after the page was unmapped and
//! mapped again. So do all pages of short mappings: libraries map the head of a file by itself before and while they map the
//! rest. Other pages are ordinary private memory; a second mapping of one ends the branch.

use super::open_bytes::ExploredFile;
use super::{STATE, mailbox};
use crate::instruments::pm::candidates::{self, Candidate};
use crate::instruments::pm::unmap::{replacing, unmapped};
use crate::memory;
use crate::memory::{PAGE, page_up};
use crate::sys;
use crate::sys::{Raw, is_err, linux};
use crate::translator::context::Context;
use crate::translator::map_lock::MapLock;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use brownout_ring::FileAt;
use brownout_ring::explore::shared_effect;
use core::ops::Range;

const PROT_WRITE: u64 = linux::PROT_WRITE as u64;
/// The part of the flags of `mmap` that says whether a mapping is shared.
const KIND: u64 = 0xf;
/// The length up to which a mapping is short.
const SHORT: u64 = 16 * PAGE;

/// Where the pages of a file have been mapped.
#[derive(Default)]
pub struct FileMappings {
    /// The addresses of the target at which there was a mapping.
    addresses: Vec<Range<u64>>,
    /// The pages that were mapped without an alias.
    plain: Vec<PlainPages>,
    /// The alias of each page that has one, by the number of the page.
    aliases: BTreeMap<u64, u64>,
    /// Where what the file holds can be read, for pages with an alias.
    views: BTreeMap<u64, u64>,
}

/// Pages of a file that were mapped without an alias.
struct PlainPages {
    /// Which bytes of the file they are.
    part: Range<u64>,
    address: u64,
    /// Whether the mapping, or a part of it, is gone, and with it what was stored there.
    is_gone: bool,
}

/// Where the present content of a page is.
pub enum PageContent {
    /// In memory, at an address.
    Memory(u64),
    /// In the file.
    File,
    /// It was stored to memory that is gone.
    Gone,
}

impl FileMappings {
    /// Where the content of a page is, given where it begins in the file.
    pub fn content(&self, page: u64) -> PageContent {
        if let Some(&alias) = self.aliases.get(&(page / PAGE)) {
            return PageContent::Memory(alias);
        }
        match self.plain.iter().find(|plain| plain.part.contains(&page)) {
            Some(plain) if plain.is_gone => PageContent::Gone,
            Some(plain) => PageContent::Memory(plain.address + (page - plain.part.start)),
            None => PageContent::File,
        }
    }

    /// Where a byte can be read as the file holds it now, whatever the process has stored or decided; `None` if it has no alias.
    pub fn view(&self, offset: u64) -> Option<u64> {
        let page = self.views.get(&(offset / PAGE))?;
        Some(page + offset % PAGE)
    }

    /// A range of addresses is no longer what it was.
    pub fn lose(&mut self, start: u64, end: u64) {
        for plain in &mut self.plain {
            let len = plain.part.end - plain.part.start;
            plain.is_gone |= plain.address < end && start < plain.address + len;
        }
    }

    /// Whether any of these bytes of the file was mapped without an alias.
    fn has_plain(&self, part: &Range<u64>) -> bool {
        let mut plain = self.plain.iter();
        plain.any(|plain| plain.part.start < part.end && part.start < plain.part.end)
    }

    /// Whether a range of addresses touches a mapping.
    pub fn touch(&self, start: u64, end: u64) -> bool {
        let mut addresses = self.addresses.iter();
        addresses.any(|mapping| mapping.start < end && start < mapping.end)
    }
}

/// The target's `mmap`, if it maps an explored file. A mapping of another file must not show what other branches write.
pub fn map(context: &mut Context, mut map_lock: MapLock, args: [u64; 6]) -> Result<Raw, MapLock> {
    let [_, len, prot, flags, fd, offset] = args;
    let is_shared = matches!(flags & KIND, 1 | 3);
    if flags & u64::from(linux::MAP_ANONYMOUS) != 0 {
        if is_shared {
            mailbox::give_up(shared_effect::MAPPING, 0);
        }
        return Err(map_lock);
    }
    let Some(stat) = sys::fstat(fd as i32) else {
        return Err(map_lock);
    };
    let identity = (stat.st_dev, stat.st_ino);
    let is_explored = STATE.lock().file_of(identity.0, identity.1).is_some();
    if is_explored != is_shared && prot & PROT_WRITE != 0 {
        // A private mapping of an explored file, or a shared one of another file, that can be written.
        mailbox::give_up(shared_effect::MAPPING, 0);
    }
    if !is_explored {
        return Err(map_lock);
    }
    if flags & u64::from(linux::MAP_FIXED) != 0 {
        replacing(&mut map_lock, args[0], len);
    }
    let mut hidden = args;
    hidden[2] = u64::from(linux::PROT_NONE);
    // SAFETY: the target's own call without rights: the kernel decides whether it is allowed, and where.
    let start = unsafe { sys::syscall(linux::__NR_mmap, hidden) };
    if is_err(start) {
        return Ok(start);
    }
    unmapped(context, start, start.saturating_add(len));
    let request = Request {
        start,
        file: FileAt {
            dev: identity.0,
            ino: identity.1,
            offset,
        },
        len: page_up(len),
        prot,
        fd: fd as i32,
    };
    if let Some((_, file)) = STATE.lock().file_of(identity.0, identity.1) {
        request.fill(file);
    }
    candidates::changed();
    Ok(start)
}

/// A mapping of an explored file that is being made.
struct Request {
    start: u64,
    file: FileAt,
    len: u64,
    prot: u64,
    fd: i32,
}

impl Request {
    /// Makes the pages of the mapping accessible: those with an alias through that, the others directly.
    fn fill(&self, file: &mut ExploredFile) {
        let range = self.file.offset..self.file.offset + self.len;
        let with_alias: Vec<Range<u64>> = if self.len <= SHORT {
            [range.clone()].into()
        } else {
            file.page_runs(range.clone())
        };
        let has_alias = |page: u64, file: &ExploredFile| {
            file.mappings.aliases.contains_key(&(page / PAGE))
                || with_alias.iter().any(|run| run.contains(&page))
        };
        let mut at = range.start;
        while at < range.end {
            let first = has_alias(at, file);
            let rest = (at..range.end).step_by(PAGE as usize);
            let end = rest
                .into_iter()
                .find(|&page| has_alias(page, file) != first)
                .unwrap_or(range.end);
            if first {
                self.add_candidates(file, at..end);
            } else {
                self.map_plain(file, at..end);
            }
            at = end;
        }
        let mappings = &mut file.mappings;
        mappings.addresses.push(self.start..self.start + self.len);
    }

    fn address(&self, offset: u64) -> u64 {
        self.start + (offset - self.file.offset)
    }

    /// Maps pages that have no alias. Their content is lost to other mappings.
    fn map_plain(&self, file: &mut ExploredFile, part: Range<u64>) {
        if file.mappings.has_plain(&part) {
            mailbox::give_up(shared_effect::MAPPING, 0);
        }
        let flags = linux::MAP_PRIVATE | linux::MAP_NORESERVE | linux::MAP_FIXED;
        let len = part.end - part.start;
        let at = self.address(part.start);
        // SAFETY: replaces a part of the mapping that the target has just asked for.
        let raw = unsafe { sys::mmap(at, len, self.prot as u32, flags, self.fd, part.start) };
        if is_err(raw) {
            mailbox::give_up(shared_effect::MAPPING, 0);
        }
        file.mappings.plain.push(PlainPages {
            part,
            address: at,
            is_gone: false,
        });
    }

    /// Adds candidates for pages, which get an alias if they have none.
    fn add_candidates(&self, file: &mut ExploredFile, part: Range<u64>) {
        let has_alias =
            |page: u64, file: &ExploredFile| file.mappings.aliases.contains_key(&(page / PAGE));
        if file.mappings.has_plain(&part) {
            mailbox::give_up(shared_effect::MAPPING, 0);
        }
        let mut at = part.start;
        while at < part.end {
            if !has_alias(at, file) {
                let rest = (at..part.end).step_by(PAGE as usize);
                let end = rest
                    .into_iter()
                    .find(|&page| has_alias(page, file))
                    .unwrap_or(part.end);
                self.add_aliases(file, at..end);
            }
            let alias = file.mappings.aliases.get(&(at / PAGE)).copied();
            let Some(alias) = alias else { return };
            // As far as the aliases are side by side.
            let aliases = &file.mappings.aliases;
            let mut end = at + PAGE;
            while end < part.end && aliases.get(&(end / PAGE)) == Some(&(alias + (end - at))) {
                end += PAGE;
            }
            let start = self.address(at);
            candidates::insert(Candidate {
                start,
                end: start + (end - at),
                delta: alias.wrapping_sub(start),
                file: FileAt {
                    offset: at,
                    ..self.file
                },
                prot: self.prot,
            });
            at = end;
        }
    }

    fn add_aliases(&self, file: &mut ExploredFile, part: Range<u64>) {
        add_aliases(self.fd, file, part);
    }
}

/// Maps the alias of pages of a file that is open.
pub fn add_aliases(fd: i32, file: &mut ExploredFile, part: Range<u64>) {
    let rights = linux::PROT_READ | linux::PROT_WRITE;
    let flags = linux::MAP_PRIVATE | linux::MAP_NORESERVE | linux::MAP_FIXED_NOREPLACE;
    let len = part.end - part.start;
    let alias = memory::place_alias(len, |addr| {
        // SAFETY: NOREPLACE leaves anything that is already there alone.
        unsafe { sys::mmap(addr, len, rights, flags, fd, part.start) }
    });
    if is_err(alias) {
        mailbox::give_up(shared_effect::MAPPING, 0);
    }
    // Without a view the process asks for the bytes, which is slower.
    let view = memory::place_alias(len, |addr| {
        let flags = linux::MAP_SHARED | linux::MAP_NORESERVE | linux::MAP_FIXED_NOREPLACE;
        // SAFETY: as above; it is never written through.
        unsafe { sys::mmap(addr, len, linux::PROT_READ, flags, fd, part.start) }
    });
    for page in part.clone().step_by(PAGE as usize) {
        let at = page - part.start;
        file.mappings.aliases.insert(page / PAGE, alias + at);
        if !is_err(view) {
            file.mappings.views.insert(page / PAGE, view + at);
        }
    }
}
