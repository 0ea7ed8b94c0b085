//! Turns a chunk back into rows. Nothing in a chunk is trusted: every length, number and code is
//! checked before it is used.

use std::io;
use std::path::Path;

use zstd::bulk::Decompressor;

use super::address::RecentAddresses;
use super::sites::{SiteMemory, Successors, Trail};
use super::words::{self, WORD};
use super::{Column, DIRECTORY_LEN, Thread, op, rare, row_width};
use crate::definitions::FileIdentity;
use crate::error::Flaw;
use crate::event::{Event, EventKind};
use crate::fields::FieldReader;
use crate::frame::{FrameHeader, MAX_SECTION};
use crate::ids::{Address, AppPc, ContextId, EventIndex, FileId, FunctionId, ProcessId, ThreadId};
use crate::varint;

/// A row that is no event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Definition<'a> {
    Context {
        process: ProcessId,
        context: ContextId,
        parent: ContextId,
        return_address: AppPc,
    },
    File {
        file: FileId,
        identity: FileIdentity,
        path: &'a Path,
    },
    Function {
        function: FunctionId,
        name: &'a str,
    },
}

/// What [`ChunkDecoder::peek`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    Event,
    Definition,
    End,
}

#[derive(Clone, Copy)]
struct Site {
    pc: AppPc,
    memory: SiteMemory,
    context: ContextId,
    size: u32,
    op: u8,
}

/// The chunk that is being read, decompressed.
pub(crate) struct ChunkDecoder {
    decompressor: Decompressor<'static>,
    /// Each with [`varint::PADDING`] after its end.
    columns: [Vec<u8>; Column::COUNT],
    planes: Vec<u8>,
    sites: Vec<Site>,
    successors: Successors,
    threads: Vec<Thread>,
    wide_rows: bool,
    row: usize,
    rows: usize,
    next_event: u64,
    /// Events still to come, by the frame's count.
    events_left: u32,
    run_thread: usize,
    run_left: u64,
    /// Positions in the columns of the same name.
    at_runs: usize,
    at_addresses: usize,
    at_words: usize,
    at_values: usize,
    at_fields: usize,
}

impl ChunkDecoder {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(ChunkDecoder {
            decompressor: Decompressor::new()?,
            columns: std::array::from_fn(|_| vec![0; varint::PADDING]),
            planes: Vec::new(),
            sites: Vec::new(),
            successors: Successors::default(),
            threads: Vec::new(),
            wide_rows: false,
            row: 0,
            rows: 0,
            next_event: 0,
            events_left: 0,
            run_thread: 0,
            run_left: 0,
            at_runs: 0,
            at_addresses: 0,
            at_words: 0,
            at_values: 0,
            at_fields: 0,
        })
    }

    /// Number of the event that [`event`](Self::event) would give.
    pub(crate) fn next_event(&self) -> EventIndex {
        EventIndex(self.next_event)
    }

    /// Starts on the chunk that is stored as `stored`.
    pub(crate) fn load(&mut self, frame: &FrameHeader, stored: &[u8]) -> Result<(), Flaw> {
        // Whatever goes wrong, no row of the chunk before is left.
        (self.row, self.rows) = (0, 0);
        (self.next_event, self.events_left) = (frame.first_event, frame.events);
        (self.run_thread, self.run_left) = (0, 0);
        (self.at_runs, self.at_addresses, self.at_fields) = (0, 0, 0);
        (self.at_words, self.at_values) = (0, 0);
        self.decompress(stored)?;
        self.load_sites()?;
        self.load_threads()?;
        let rows = frame.rows as usize;
        let width = row_width(self.sites.len());
        self.wide_rows = width == 2;
        if self.sites.len() > rows || self.threads.len() > rows {
            return Err(Flaw::BadReference);
        }
        if rows * width != self.column_len(Column::Rows) {
            return Err(Flaw::ColumnLength);
        }
        self.rows = rows;
        Ok(())
    }

    fn column(&self, column: Column) -> &[u8] {
        &self.columns[column as usize]
    }

    fn column_len(&self, column: Column) -> usize {
        self.column(column).len().saturating_sub(varint::PADDING)
    }

    fn decompress(&mut self, stored: &[u8]) -> Result<(), Flaw> {
        let (directory, mut rest) = stored
            .split_first_chunk::<DIRECTORY_LEN>()
            .ok_or(Flaw::ColumnLength)?;
        let mut total = 0;
        for (entry, column) in directory.as_chunks::<8>().0.iter().zip(&mut self.columns) {
            let raw_len = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]) as usize;
            let stored_len = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]) as usize;
            total += raw_len;
            if total > MAX_SECTION {
                return Err(Flaw::TooLarge);
            }
            let (bytes, after) = rest
                .split_at_checked(stored_len)
                .ok_or(Flaw::ColumnLength)?;
            rest = after;
            column.clear();
            column.reserve(raw_len + varint::PADDING);
            if stored_len == raw_len {
                column.extend_from_slice(bytes);
            } else {
                self.decompressor
                    .decompress_to_buffer(bytes, column)
                    .map_err(|_| Flaw::Compression)?;
            }
            if column.len() != raw_len {
                return Err(Flaw::Compression);
            }
        }
        if !rest.is_empty() {
            return Err(Flaw::ColumnLength);
        }
        let words = &mut self.columns[Column::Words as usize];
        if !words.len().is_multiple_of(WORD) {
            return Err(Flaw::ColumnLength);
        }
        std::mem::swap(words, &mut self.planes);
        words.clear();
        words::from_planes(&self.planes, words);
        for column in &mut self.columns {
            column.resize(column.len() + varint::PADDING, 0);
        }
        Ok(())
    }

    fn load_sites(&mut self) -> Result<(), Flaw> {
        self.sites.clear();
        self.successors.clear();
        let mut fields = FieldReader::new(&self.columns[Column::Sites as usize], 0);
        let count = fields.take()?;
        let (mut pc, mut context) = (0u64, 0i64);
        for _ in 0..count {
            pc = pc.wrapping_add(fields.take_signed()? as u64);
            context = context.wrapping_add(fields.take_signed()?);
            let op = fields.take_byte()?;
            op::check(op)?;
            self.sites.push(Site {
                pc: AppPc(pc),
                memory: SiteMemory::default(),
                context: ContextId(u32::try_from(context).map_err(|_| Flaw::BadField)?),
                size: fields.take_u32()?,
                op,
            });
        }
        fields.finish()
    }

    fn load_threads(&mut self) -> Result<(), Flaw> {
        self.threads.clear();
        let mut fields = FieldReader::new(&self.columns[Column::Threads as usize], 0);
        while !fields.is_empty() {
            self.threads.push(Thread {
                process: ProcessId(fields.take_u32()?),
                thread: ThreadId(fields.take_u32()?),
                trail: Trail::default(),
                recent: RecentAddresses::default(),
            });
        }
        Ok(())
    }

    /// The next row as it is stored, or `None` after the last.
    #[inline]
    fn next_row(&self) -> Option<u16> {
        if self.row >= self.rows {
            return None;
        }
        let rows = self.column(Column::Rows);
        Some(if self.wide_rows {
            u16::from_le_bytes([rows[2 * self.row], rows[2 * self.row + 1]])
        } else {
            u16::from(rows[self.row])
        })
    }

    /// What the next row is. At the end, an error if there is more in the columns than the rows used.
    #[inline]
    pub(crate) fn peek(&self) -> Result<RowKind, Flaw> {
        match self.next_row() {
            Some(0) => Ok(RowKind::Event),
            Some(row) => match self.sites.get(usize::from(row - 1)) {
                Some(site) if site.op < op::DEFINITIONS => Ok(RowKind::Event),
                Some(_) => Ok(RowKind::Definition),
                None => Err(Flaw::BadReference),
            },
            None => self.check_end().map(|()| RowKind::End),
        }
    }

    #[cold]
    fn check_end(&self) -> Result<(), Flaw> {
        let used_up = self.events_left == 0
            && self.run_left == 0
            && self.at_runs == self.column_len(Column::Runs)
            && self.at_addresses == self.column_len(Column::Addresses)
            && self.at_words == self.column_len(Column::Words)
            && self.at_values == self.column_len(Column::Values)
            && self.at_fields == self.column_len(Column::Fields);
        if used_up {
            Ok(())
        } else {
            Err(Flaw::ColumnLength)
        }
    }

    /// The next row, which [`peek`](Self::peek) called a definition.
    #[cold]
    pub(crate) fn definition(&mut self) -> Result<Definition<'_>, Flaw> {
        let row = self.next_row().ok_or(Flaw::ColumnLength)?;
        let site = usize::from(row)
            .checked_sub(1)
            .and_then(|site| self.sites.get(site));
        let op = site.ok_or(Flaw::BadReference)?.op;
        self.row += 1;
        let mut fields = FieldReader::new(&self.columns[Column::Fields as usize], self.at_fields);
        let definition = match op {
            op::DEFINE_CONTEXT => {
                let process = ProcessId(fields.take_u32()?);
                let context = fields.take_u32()?;
                let parent = i64::from(context).wrapping_sub(fields.take_signed()?);
                Definition::Context {
                    process,
                    context: ContextId(context),
                    parent: ContextId(u32::try_from(parent).map_err(|_| Flaw::BadField)?),
                    return_address: AppPc(fields.take()?),
                }
            }
            op::DEFINE_FILE => Definition::File {
                file: FileId(fields.take_u32()?),
                identity: FileIdentity {
                    dev: fields.take()?,
                    ino: fields.take()?,
                },
                path: fields.take_path()?,
            },
            op::DEFINE_FUNCTION => Definition::Function {
                function: FunctionId(fields.take_u32()?),
                name: fields.take_str()?,
            },
            _ => return Err(Flaw::BadField),
        };
        self.at_fields = fields.position();
        Ok(definition)
    }

    /// The next row, which [`peek`](Self::peek) called an event.
    #[inline]
    pub(crate) fn event(&mut self) -> Result<Event<'_>, Flaw> {
        let row = self.next_row().ok_or(Flaw::ColumnLength)?;
        self.row += 1;
        if self.run_left == 0 {
            self.next_run()?;
        }
        self.run_left -= 1;
        self.events_left = self.events_left.checked_sub(1).ok_or(Flaw::ColumnLength)?;
        let index = EventIndex(self.next_event);
        self.next_event += 1;

        let number = self.follow(row)?;
        let Site {
            pc,
            context,
            size,
            op,
            ..
        } = self.sites[number];
        let Thread {
            process, thread, ..
        } = self.threads[self.run_thread];
        let kind = if op < op::ADDRESSED_END {
            let addr = self.address(number)?;
            if op < op::STORE_END {
                let bytes = self.accessed(number, size as usize)?;
                let (flavor, locked, string) = op::store_parts(op);
                EventKind::Store {
                    addr,
                    bytes,
                    flavor,
                    locked,
                    string,
                }
            } else if let Some((kind, volatile)) = op::flush_parts(op) {
                EventKind::Flush {
                    addr,
                    kind,
                    volatile,
                }
            } else {
                let bytes = self.accessed(number, size as usize)?;
                EventKind::Load { addr, bytes }
            }
        } else if let Some(kind) = op::fence_kind(op) {
            EventKind::Fence { kind }
        } else {
            self.rare_kind(op)?
        };
        Ok(Event {
            index,
            process,
            thread,
            pc,
            context,
            kind,
        })
    }

    /// The site that a row of the current thread stands for.
    #[inline]
    fn follow(&mut self, row: u16) -> Result<usize, Flaw> {
        let trail = &mut self.threads[self.run_thread].trail;
        let successor = self.successors.after(*trail);
        if row != 0 {
            *successor = row - 1;
        }
        let site = *successor;
        trail.push(site);
        if usize::from(site) < self.sites.len() {
            Ok(usize::from(site))
        } else {
            Err(Flaw::BadReference)
        }
    }

    #[cold]
    fn next_run(&mut self) -> Result<(), Flaw> {
        let mut fields = FieldReader::new(&self.columns[Column::Runs as usize], self.at_runs);
        let thread = usize::try_from(fields.take()?).map_err(|_| Flaw::BadReference)?;
        if thread >= self.threads.len() {
            return Err(Flaw::BadReference);
        }
        self.run_thread = thread;
        self.run_left = fields.take()?;
        self.at_runs = fields.position();
        if self.run_left == 0 {
            Err(Flaw::BadField)
        } else {
            Ok(())
        }
    }

    #[inline]
    fn address(&mut self, site: usize) -> Result<Address, Flaw> {
        let column = &self.columns[Column::Addresses as usize];
        let end = column.len() - varint::PADDING;
        let at = &mut self.at_addresses;
        let recent = &mut self.threads[self.run_thread].recent;
        let addr = recent.decode(&mut self.sites[site].memory.last_addr, || {
            let (token, next) = varint::decode(column, *at, end).ok_or(Flaw::ColumnLength)?;
            *at = next;
            Ok(token)
        })?;
        Ok(Address(addr))
    }

    /// The bytes of a store or load.
    #[inline]
    fn accessed(&mut self, site: usize, len: usize) -> Result<&[u8], Flaw> {
        if len != WORD {
            return take_bytes(
                &self.columns[Column::Values as usize],
                &mut self.at_values,
                len,
            );
        }
        // The padding makes room for one word past the end, which is refused below.
        let words = &mut self.columns[Column::Words as usize];
        let end = words.len() - varint::PADDING;
        let bytes = words[self.at_words..]
            .first_chunk_mut::<WORD>()
            .ok_or(Flaw::ColumnLength)?;
        self.at_words += WORD;
        if self.at_words > end {
            return Err(Flaw::ColumnLength);
        }
        let last = &mut self.sites[site].memory.last_word;
        *last ^= u64::from_le_bytes(*bytes);
        *bytes = last.to_le_bytes();
        Ok(bytes)
    }

    #[cold]
    fn rare_kind(&mut self, op: u8) -> Result<EventKind<'_>, Flaw> {
        let mut fields = FieldReader::new(&self.columns[Column::Fields as usize], self.at_fields);
        let values = &self.columns[Column::Values as usize];
        let at_values = &mut self.at_values;
        let kind = rare::take(op, &mut fields, |len| {
            let len = usize::try_from(len).map_err(|_| Flaw::ColumnLength)?;
            take_bytes(values, at_values, len)
        })?;
        self.at_fields = fields.position();
        Ok(kind)
    }
}

/// The next `len` bytes of a padded column.
#[inline]
fn take_bytes<'a>(padded: &'a [u8], at: &mut usize, len: usize) -> Result<&'a [u8], Flaw> {
    let from = *at;
    let to = from.checked_add(len).ok_or(Flaw::ColumnLength)?;
    if to > padded.len() - varint::PADDING {
        return Err(Flaw::ColumnLength);
    }
    *at = to;
    Ok(&padded[from..to])
}
