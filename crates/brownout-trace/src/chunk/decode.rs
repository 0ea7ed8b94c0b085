//! Decodes a chunk into rows. Nothing in a chunk is trusted: every length, number and code is checked before it is used.

use std::io;
use std::path::Path;

use zstd::bulk::Decompressor;

use super::address::RecentAddresses;
use super::plain::{RemainingBytes, RemainingColumns};
use super::sites::{LastSites, SiteHistory, SitePredictor};
use super::words::{self, WORD};
use super::{ChunkThread, Column, DIRECTORY_LEN, op, rare, row_width};
use crate::definitions::FileIdentity;
use crate::error::Flaw;
use crate::event::{Event, EventKind};
use crate::fields::FieldReader;
use crate::ids::{AppPc, ContextId, EventIndex, FileId, FunctionId, ProcessId, ThreadId};
use crate::section_header::{MAX_SECTION, SectionHeader};
use crate::varint;

/// A row that is not an event.
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

/// The kind of the next row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    Event,
    Definition,
    End,
}

/// Sized and aligned to half a cache line, so that an access touches one line only: accesses to sites are unpredictable.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(crate) struct ChunkSite {
    pub(crate) pc: AppPc,
    pub(super) memory: SiteHistory,
    pub(crate) context: ContextId,
    /// Operation code in the lowest byte, size above.
    shape: u32,
}

const _: () = assert!(size_of::<ChunkSite>() == 32);

impl ChunkSite {
    fn shape(op: u8, size: u32) -> Result<u32, Flaw> {
        op::check(op)?;
        match size.checked_mul(1 << u8::BITS) {
            Some(size) => Ok(size | u32::from(op)),
            None => Err(Flaw::TooLarge),
        }
    }

    #[inline]
    pub(super) fn op(&self) -> u8 {
        self.shape as u8
    }

    #[inline]
    pub(super) fn size(&self) -> usize {
        (self.shape >> u8::BITS) as usize
    }
}

/// The chunk being read, decompressed.
pub(crate) struct ChunkDecoder {
    decompressor: Decompressor<'static>,
    /// Each with [`varint::PADDING`] after its end.
    pub(super) columns: [Vec<u8>; Column::COUNT],
    planes: Vec<u8>,
    pub(super) sites: Vec<ChunkSite>,
    pub(super) predictor: SitePredictor,
    pub(super) threads: Vec<ChunkThread>,
    /// The entry of each row in column 1.
    pub(super) rows: Vec<u16>,
    /// The next row.
    pub(super) row: usize,
    pub(super) next_event: u64,
    /// Of this chunk.
    pub(super) first_event: u64,
    /// Events that remain, according to the section header.
    pub(super) events_left: u32,
    pub(super) run_thread: usize,
    pub(super) run_left: u64,
    /// The position in the column of the same name.
    at_runs: usize,
    pub(super) rest: RemainingBytes,
}

impl ChunkDecoder {
    pub(crate) fn new() -> io::Result<Self> {
        let columns = std::array::from_fn(|_| vec![0; varint::PADDING]);
        Ok(ChunkDecoder {
            decompressor: Decompressor::new()?,
            rest: RemainingBytes::new(&columns),
            columns,
            planes: Vec::new(),
            sites: Vec::new(),
            predictor: SitePredictor::default(),
            threads: Vec::new(),
            rows: Vec::new(),
            row: 0,
            next_event: 0,
            first_event: 0,
            events_left: 0,
            run_thread: 0,
            run_left: 0,
            at_runs: 0,
        })
    }

    /// The index of the event that [`event`](Self::event) would return.
    pub(crate) fn next_event(&self) -> EventIndex {
        EventIndex(self.next_event)
    }

    /// Starts reading the chunk stored as `stored`.
    pub(crate) fn load(&mut self, section: &SectionHeader, stored: &[u8]) -> Result<(), Flaw> {
        // Cleared first: even after an error, no row of the previous chunk remains.
        self.rows.clear();
        self.row = 0;
        (self.next_event, self.events_left) = (section.first_event, section.events);
        self.first_event = section.first_event;
        (self.run_thread, self.run_left) = (0, 0);
        self.at_runs = 0;
        self.decompress(stored)?;
        self.rest = RemainingBytes::new(&self.columns);
        self.load_sites()?;
        self.load_threads()?;
        let rows = section.rows as usize;
        let width = row_width(self.sites.len());
        if self.sites.len() > rows || self.threads.len() > rows {
            return Err(Flaw::BadReference);
        }
        let column = &self.columns[Column::Rows as usize];
        let column = &column[..column.len() - varint::PADDING];
        if rows * width != column.len() {
            return Err(Flaw::ColumnLength);
        }
        if width == 2 {
            let rows = column.as_chunks::<2>().0.iter();
            self.rows.extend(rows.map(|row| u16::from_le_bytes(*row)));
        } else {
            self.rows.extend(column.iter().map(|&row| u16::from(row)));
        }
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
        words::from_planes(&self.planes, words);
        for column in &mut self.columns {
            column.resize(column.len() + varint::PADDING, 0);
        }
        Ok(())
    }

    fn load_sites(&mut self) -> Result<(), Flaw> {
        self.sites.clear();
        self.predictor.clear();
        let mut fields = FieldReader::new(&self.columns[Column::Sites as usize], 0);
        let count = fields.take()?;
        let (mut pc, mut context) = (0u64, 0i64);
        for _ in 0..count {
            pc = pc.wrapping_add(fields.take_signed()? as u64);
            context = context.wrapping_add(fields.take_signed()?);
            self.sites.push(ChunkSite {
                pc: AppPc(pc),
                memory: SiteHistory::default(),
                context: ContextId(u32::try_from(context).map_err(|_| Flaw::BadField)?),
                shape: ChunkSite::shape(fields.take_byte()?, fields.take_u32()?)?,
            });
        }
        fields.finish()
    }

    fn load_threads(&mut self) -> Result<(), Flaw> {
        self.threads.clear();
        let mut fields = FieldReader::new(&self.columns[Column::Threads as usize], 0);
        while !fields.is_empty() {
            self.threads.push(ChunkThread {
                process: ProcessId(fields.take_u32()?),
                thread: ThreadId(fields.take_u32()?),
                last_sites: LastSites::default(),
                recent: RecentAddresses::default(),
            });
        }
        Ok(())
    }

    /// The entry of the next row, or `None` after the last.
    #[inline]
    fn next_row(&self) -> Option<u16> {
        self.rows.get(self.row).copied()
    }

    /// The kind of the next row. At the end, an error if the rows did not use all of the columns.
    #[inline]
    pub(crate) fn peek(&self) -> Result<RowKind, Flaw> {
        match self.next_row() {
            Some(0) => Ok(RowKind::Event),
            Some(row) => match self.sites.get(usize::from(row - 1)) {
                Some(site) if site.op() < op::DEFINITIONS => Ok(RowKind::Event),
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
            && self.rest.is_empty();
        if used_up {
            Ok(())
        } else {
            Err(Flaw::ColumnLength)
        }
    }

    /// The next row, which is a definition according to [`peek`](Self::peek).
    #[cold]
    pub(crate) fn definition(&mut self) -> Result<Definition<'_>, Flaw> {
        let row = self.next_row().ok_or(Flaw::ColumnLength)?;
        let site = usize::from(row)
            .checked_sub(1)
            .and_then(|site| self.sites.get(site));
        let op = site.ok_or(Flaw::BadReference)?.op();
        self.row += 1;
        let rest = RemainingColumns::new(&mut self.columns, self.rest);
        let mut fields = FieldReader::new(rest.fields, 0);
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
        self.rest.read_fields(&fields);
        Ok(definition)
    }

    /// The next row, which is an event according to [`peek`](Self::peek).
    #[inline]
    pub(crate) fn event(&mut self) -> Result<Event<'_>, Flaw> {
        let row = self.next_row().ok_or(Flaw::ColumnLength)?;
        if self.run_left == 0 {
            self.next_run()?;
        }
        self.events_left = self.events_left.checked_sub(1).ok_or(Flaw::ColumnLength)?;
        let ChunkThread {
            process,
            thread,
            last_sites,
            recent,
        } = &mut self.threads[self.run_thread];
        let predicted = self.predictor.after(*last_sites);
        if row != 0 {
            *predicted = row - 1;
        }
        let number = *predicted;
        let site = self.sites.get_mut(usize::from(number));
        let site = site.ok_or(Flaw::BadReference)?;
        last_sites.push(number);
        let (pc, context, op) = (site.pc, site.context, site.op());
        let mut rest = RemainingColumns::new(&mut self.columns, self.rest);
        let kind = if op < op::RARE {
            rest.kind(site, recent)?
        } else {
            rare(op, &mut rest)?
        };
        self.rest = rest.len();
        let index = EventIndex(self.next_event);
        self.row += 1;
        self.run_left -= 1;
        self.next_event += 1;
        Ok(Event {
            index,
            process: *process,
            thread: *thread,
            pc,
            context,
            kind,
        })
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
}

/// Decodes a row that is not plain.
#[cold]
fn rare<'a>(op: u8, rest: &mut RemainingColumns<'a>) -> Result<EventKind<'a>, Flaw> {
    let mut fields = FieldReader::new(rest.fields, 0);
    let kind = rare::take(op, &mut fields, |len| {
        let len = usize::try_from(len).map_err(|_| Flaw::ColumnLength)?;
        rest.value(len)
    })?;
    rest.fields = fields.rest();
    Ok(kind)
}
