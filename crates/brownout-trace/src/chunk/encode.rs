//! Collects rows in columns and compresses them into a chunk.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::io;
use std::path::Path;

use zstd::bulk::Compressor;

use super::address::RecentAddresses;
use super::sites::{LastSites, MixHasher, SiteKey, SitePredictor, SiteTable};
use super::words::{self, WORD};
use super::{ChunkThread, Column, DIRECTORY_LEN, op, rare, row_width};
use crate::definitions::FileIdentity;
use crate::error::WriteError;
use crate::event::{Event, EventKind};
use crate::fields::FieldWriter;
use crate::ids::{Address, AppPc, ContextId, FileId, FunctionId, ProcessId, ThreadId};
use crate::section_header::MAX_ROWS;
use crate::summary::EventCounts;
use crate::varint;

/// A chunk is finished when its columns hold this many bytes.
const FULL: usize = 1 << 20;

/// The maximum number of bytes in one event. With [`FULL`], it keeps chunks well below the limit of the reader.
pub(crate) const MAX_EVENT: usize = 8 << 20;

/// A fast level, to keep recording fast. These columns are so regular that they compress well at any level.
const COMPRESSION_LEVEL: i32 = -3;

/// The chunk being written.
pub(crate) struct ChunkEncoder {
    sites: SiteTable,
    predictor: SitePredictor,
    rows: Vec<u16>,
    threads: Vec<ChunkThread>,
    thread_numbers: HashMap<(ProcessId, ThreadId), usize, BuildHasherDefault<MixHasher>>,
    /// The thread of the last event, and the number of its consecutive events.
    run_thread: usize,
    run_len: u32,
    runs: Vec<u8>,
    addresses: Vec<u8>,
    words: Vec<[u8; WORD]>,
    values: Vec<u8>,
    fields: Vec<u8>,
    events: u32,
    defines: bool,
    counts: EventCounts,
    compression: Compression,
}

impl ChunkEncoder {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(ChunkEncoder {
            sites: SiteTable::default(),
            predictor: SitePredictor::default(),
            rows: Vec::with_capacity(MAX_ROWS as usize),
            threads: Vec::new(),
            thread_numbers: HashMap::default(),
            run_thread: usize::MAX,
            run_len: 0,
            runs: Vec::new(),
            addresses: Vec::new(),
            words: Vec::new(),
            values: Vec::new(),
            fields: Vec::new(),
            events: 0,
            defines: false,
            counts: EventCounts::default(),
            compression: Compression {
                compressor: Compressor::new(COMPRESSION_LEVEL)?,
                compressed: Vec::new(),
                column: Vec::new(),
            },
        })
    }

    pub(crate) fn rows(&self) -> u32 {
        self.rows.len() as u32
    }

    pub(crate) fn events(&self) -> u32 {
        self.events
    }

    /// Whether the chunk changes definitions.
    pub(crate) fn defines(&self) -> bool {
        self.defines
    }

    pub(crate) fn counts(&self) -> &EventCounts {
        &self.counts
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        let bytes =
            self.words.len() * WORD + self.values.len() + self.addresses.len() + self.fields.len();
        self.rows.len() >= MAX_ROWS as usize || bytes >= FULL
    }

    /// Adds an event. The chunk must not be full.
    #[inline(always)]
    pub(crate) fn event(&mut self, event: &Event<'_>) -> Result<(), WriteError> {
        match event.kind {
            EventKind::Store {
                addr,
                bytes,
                flavor,
                locked,
                string,
            } => {
                let op = op::store(flavor, locked, string);
                self.access(event, op, addr, bytes)?;
            }
            EventKind::Load { addr, bytes } => self.access(event, op::LOAD, addr, bytes)?,
            EventKind::Flush {
                addr,
                kind,
                volatile,
            } => {
                let site = self.row(event, op::flush(kind, volatile), 0);
                self.address(site, addr);
            }
            EventKind::Fence { kind } => {
                self.row(event, op::fence(kind), 0);
            }
            EventKind::Call { function, ref args } => {
                self.row(event, op::CALL, 0);
                rare::put_call(&mut self.fields, function, args);
            }
            EventKind::Return {
                function,
                value: Some(ref value),
            } => {
                self.row(event, op::RETURN, 0);
                rare::put_result(&mut self.fields, function, value);
            }
            _ => self.rare_event(event)?,
        }
        self.events += 1;
        self.counts.add(event.kind.class());
        Ok(())
    }

    pub(crate) fn define_context(
        &mut self,
        process: ProcessId,
        context: ContextId,
        parent: ContextId,
        return_address: AppPc,
    ) {
        self.definition(op::DEFINE_CONTEXT);
        self.fields.put(u64::from(process.0));
        self.fields.put(u64::from(context.0));
        // Callers are usually defined shortly before their callees.
        self.fields
            .put_signed(i64::from(context.0) - i64::from(parent.0));
        self.fields.put(return_address.0);
    }

    pub(crate) fn define_file(&mut self, file: FileId, identity: FileIdentity, path: &Path) {
        self.definition(op::DEFINE_FILE);
        self.fields.put(u64::from(file.0));
        self.fields.put(identity.dev);
        self.fields.put(identity.ino);
        self.fields.put_path(path);
    }

    pub(crate) fn define_function(&mut self, function: FunctionId, name: &str) {
        self.definition(op::DEFINE_FUNCTION);
        self.fields.put(u64::from(function.0));
        self.fields.put_bytes(name.as_bytes());
    }

    /// Appends the chunk to `out` and starts an empty one.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.end_run();
        let directory = out.len();
        out.resize(directory + DIRECTORY_LEN, 0);
        let compression = &mut self.compression;

        compression.column.clear();
        self.sites.encode(&mut compression.column);
        compression.append_column(out, directory, Column::Sites)?;

        compression.column.clear();
        if row_width(self.sites.len()) == 1 {
            compression
                .column
                .extend(self.rows.iter().map(|&row| row as u8));
        } else {
            compression
                .column
                .extend(self.rows.iter().flat_map(|row| row.to_le_bytes()));
        }
        compression.append_column(out, directory, Column::Rows)?;

        compression.column.clear();
        for thread in &self.threads {
            compression.column.put(u64::from(thread.process.0));
            compression.column.put(u64::from(thread.thread.0));
        }
        compression.append_column(out, directory, Column::Threads)?;

        compression.append(out, directory, Column::Runs, &self.runs)?;
        compression.append(out, directory, Column::Addresses, &self.addresses)?;
        words::to_planes(self.words.as_flattened(), &mut compression.column);
        compression.append_column(out, directory, Column::Words)?;
        compression.append(out, directory, Column::Values, &self.values)?;
        compression.append(out, directory, Column::Fields, &self.fields)?;
        self.clear();
        Ok(())
    }

    /// Removes all rows.
    pub(crate) fn clear(&mut self) {
        self.sites.clear();
        self.predictor.clear();
        self.rows.clear();
        self.threads.clear();
        self.thread_numbers.clear();
        self.run_thread = usize::MAX;
        self.run_len = 0;
        self.runs.clear();
        self.addresses.clear();
        self.words.clear();
        self.values.clear();
        self.fields.clear();
        self.events = 0;
        self.defines = false;
        self.counts = EventCounts::default();
    }

    #[inline(always)]
    fn access(
        &mut self,
        event: &Event<'_>,
        op: u8,
        addr: Address,
        bytes: &[u8],
    ) -> Result<(), WriteError> {
        check_len(bytes.len())?;
        let site = self.row(event, op, bytes.len() as u32);
        self.address(site, addr);
        match <&[u8; WORD]>::try_from(bytes) {
            Ok(word) => {
                let word = u64::from_le_bytes(*word);
                let last = &mut self.sites.memory(site).last_word;
                self.words.push((word ^ *last).to_le_bytes());
                *last = word;
            }
            Err(_) => self.values.extend_from_slice(bytes),
        }
        Ok(())
    }

    fn rare_event(&mut self, event: &Event<'_>) -> Result<(), WriteError> {
        check_len(rare::payload_len(&event.kind))?;
        if let Some(op) = rare::op(&event.kind) {
            self.defines |= event.defines();
            self.row(event, op, 0);
            rare::put(&event.kind, &mut self.fields, &mut self.values);
        }
        Ok(())
    }

    /// Adds a row for an event. Returns its site.
    #[inline(always)]
    fn row(&mut self, event: &Event<'_>, op: u8, size: u32) -> u16 {
        let on_thread = self
            .threads
            .get(self.run_thread)
            .is_some_and(|run| run.thread == event.thread && run.process == event.process);
        if !on_thread {
            self.switch_thread(event.process, event.thread);
        }
        self.run_len += 1;
        let thread = &mut self.threads[self.run_thread];
        let key = SiteKey {
            pc: event.pc.0,
            context: event.context.0,
            size,
            op,
        };
        let predicted = self.predictor.after(thread.last_sites);
        let is_predicted = self.sites.is(*predicted, &key);
        if !is_predicted {
            *predicted = self.sites.number(&key);
        }
        let site = *predicted;
        thread.last_sites.push(site);
        self.rows.push(if is_predicted { 0 } else { site + 1 });
        site
    }

    fn definition(&mut self, op: u8) {
        self.defines = true;
        let site = self.sites.number(&SiteKey {
            pc: 0,
            context: 0,
            size: 0,
            op,
        });
        self.rows.push(site + 1);
    }

    #[cold]
    fn switch_thread(&mut self, process: ProcessId, thread: ThreadId) {
        self.end_run();
        let threads = &mut self.threads;
        self.run_thread = *self
            .thread_numbers
            .entry((process, thread))
            .or_insert_with(|| {
                let recent = RecentAddresses::default();
                threads.push(ChunkThread {
                    process,
                    thread,
                    last_sites: LastSites::default(),
                    recent,
                });
                threads.len() - 1
            });
    }

    fn end_run(&mut self) {
        if self.run_len > 0 {
            self.runs.put(self.run_thread as u64);
            self.runs.put(u64::from(self.run_len));
            self.run_len = 0;
        }
    }

    #[inline(always)]
    fn address(&mut self, site: u16, addr: Address) {
        let recent = &mut self.threads[self.run_thread].recent;
        let addresses = &mut self.addresses;
        recent.encode(&mut self.sites.memory(site).last_addr, addr.0, |token| {
            varint::encode(addresses, token);
        });
    }
}

/// The compressor with its buffers.
struct Compression {
    compressor: Compressor<'static>,
    compressed: Vec<u8>,
    /// A column that is built when the chunk is finished.
    column: Vec<u8>,
}

impl Compression {
    fn append_column(
        &mut self,
        out: &mut Vec<u8>,
        directory: usize,
        column: Column,
    ) -> io::Result<()> {
        let raw = std::mem::take(&mut self.column);
        let result = self.append(out, directory, column, &raw);
        self.column = raw;
        result
    }

    /// Appends a column to `out` and enters it in the directory.
    fn append(
        &mut self,
        out: &mut Vec<u8>,
        directory: usize,
        column: Column,
        raw: &[u8],
    ) -> io::Result<()> {
        self.compressed.clear();
        self.compressed
            .reserve(zstd::zstd_safe::compress_bound(raw.len()));
        self.compressor
            .compress_to_buffer(raw, &mut self.compressed)?;
        // Stored uncompressed if compression does not help. The reader recognises this by the equal lengths.
        let stored = if self.compressed.len() < raw.len() {
            &self.compressed
        } else {
            raw
        };
        let entry = directory + column as usize * 8;
        out[entry..entry + 4].copy_from_slice(&(raw.len() as u32).to_le_bytes());
        out[entry + 4..entry + 8].copy_from_slice(&(stored.len() as u32).to_le_bytes());
        out.extend_from_slice(stored);
        Ok(())
    }
}

#[inline]
fn check_len(len: usize) -> Result<(), WriteError> {
    if len > MAX_EVENT {
        return Err(WriteError::EventTooLong {
            len,
            limit: MAX_EVENT,
        });
    }
    Ok(())
}
