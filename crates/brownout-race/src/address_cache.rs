//! Translates addresses to offsets in files, with a cache of the mapping used last.

use brownout_trace::{Address, Definitions, FileId, FileRange, ProcessId};

#[derive(Clone, Copy)]
struct CachedMapping {
    process: ProcessId,
    start: u64,
    len: u64,
    file: FileId,
    offset: u64,
}

/// The mapping that was used last.
#[derive(Default)]
pub(crate) struct AddressCache {
    recent: Option<CachedMapping>,
}

impl AddressCache {
    /// Mappings have changed.
    pub(crate) fn forget(&mut self) {
        self.recent = None;
    }

    /// The file bytes behind the longest prefix of `len` bytes at `addr` that lies in one mapping.
    #[inline]
    pub(crate) fn resolve(
        &mut self,
        process: ProcessId,
        addr: Address,
        len: u64,
        definitions: &Definitions,
    ) -> Option<FileRange> {
        let within = |mapping: &CachedMapping| {
            let skipped = addr.0.wrapping_sub(mapping.start);
            (mapping.process == process && skipped < mapping.len).then(|| FileRange {
                file: mapping.file,
                offset: mapping.offset + skipped,
                len: len.min(mapping.len - skipped),
            })
        };
        if let Some(found) = self.recent.as_ref().and_then(within) {
            return Some(found);
        }
        let space = definitions.process(process)?.address_space();
        let mapping = space.mapping_at(addr)?;
        self.recent = Some(CachedMapping {
            process,
            start: mapping.addr.0,
            // No offset overflows.
            len: mapping.len.min(u64::MAX - mapping.offset),
            file: mapping.file,
            offset: mapping.offset,
        });
        self.recent.as_ref().and_then(within)
    }

    /// The file bytes behind all mapped parts of a range.
    pub(crate) fn resolve_all(
        process: ProcessId,
        addr: Address,
        len: u64,
        definitions: &Definitions,
    ) -> Vec<FileRange> {
        let (from, to) = (addr.0, addr.0.saturating_add(len));
        let process = definitions.process(process).into_iter();
        let mappings = process.flat_map(|process| process.address_space().mappings());
        let parts = mappings.filter_map(|mapping| {
            let start = mapping.addr.0.max(from);
            let end = mapping.addr.0.saturating_add(mapping.len).min(to);
            let len = end.checked_sub(start).filter(|&len| len > 0)?;
            Some(FileRange {
                file: mapping.file,
                offset: mapping.offset.checked_add(start - mapping.addr.0)?,
                len,
            })
        });
        parts.collect()
    }
}
