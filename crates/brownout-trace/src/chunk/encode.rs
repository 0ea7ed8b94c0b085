//! Gathers rows into columns and compresses them into a chunk.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;

use zstd::bulk::Compressor;

use super::{COLUMNS, FAR_ADDRESS, op, row_width};
use crate::definitions::FileIdentity;
use crate::error::WriteError;
use crate::event::{Event, EventKind, Mapping, ProcessOrigin, Sync};
use crate::fields::FieldWriter;
use crate::frame::MAX_ROWS;
use crate::ids::{Address, AppPc, ContextId, FileId, ProcessId, ThreadId};
use crate::summary::{EventCounts, put_end};
use crate::varint::{encode, zigzag};
use std::path::Path;

/// A chunk is finished when its columns hold this many bytes.
const FULL: usize = 1 << 20;

/// Most bytes that one event may carry. With [`FULL`], it keeps chunks well below the limit that the
/// reader accepts.
pub(crate) const MAX_EVENT: usize = 8 << 20;

/// Higher levels gain little on columns this regular.
const COMPRESSION_LEVEL: i32 = 1;

/// What is the same for every event of one place in the program.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct SiteKey {
    pc: u64,
    context: u32,
    size: u32,
    op: u8,
}

struct Site {
    key: SiteKey,
    last_addr: u64,
    /// The site that came after this one last time: a guess that spares most look-ups.
    next: u16,
}

struct Thread {
    process: ProcessId,
    thread: ThreadId,
    last_addr: u64,
}

/// Rows of the chunk that is being written.
pub(crate) struct ChunkEncoder {
    sites: Vec<Site>,
    site_numbers: HashMap<SiteKey, u16, BuildHasherDefault<MixHasher>>,
    rows: Vec<u16>,
    threads: Vec<Thread>,
    thread_numbers: HashMap<(ProcessId, ThreadId), usize, BuildHasherDefault<MixHasher>>,
    /// The thread of the last event, and how many events it caused in a row.
    run_thread: usize,
    run_len: u32,
    runs: Vec<u8>,
    addresses: Vec<u8>,
    values: Vec<u8>,
    fields: Vec<u8>,
    events: u32,
    defines: bool,
    counts: EventCounts,
    compressor: Compressor<'static>,
    narrow_rows: Vec<u8>,
    site_bytes: Vec<u8>,
    thread_bytes: Vec<u8>,
    compressed: Vec<u8>,
}

impl ChunkEncoder {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(ChunkEncoder {
            sites: Vec::new(),
            site_numbers: HashMap::default(),
            rows: Vec::with_capacity(MAX_ROWS as usize),
            threads: Vec::new(),
            thread_numbers: HashMap::default(),
            run_thread: usize::MAX,
            run_len: 0,
            runs: Vec::new(),
            addresses: Vec::new(),
            values: Vec::new(),
            fields: Vec::new(),
            events: 0,
            defines: false,
            counts: EventCounts::default(),
            compressor: Compressor::new(COMPRESSION_LEVEL)?,
            narrow_rows: Vec::new(),
            site_bytes: Vec::new(),
            thread_bytes: Vec::new(),
            compressed: Vec::new(),
        })
    }

    pub(crate) fn rows(&self) -> u32 {
        self.rows.len() as u32
    }

    pub(crate) fn events(&self) -> u32 {
        self.events
    }

    /// The chunk changes what a reader knows of processes, contexts and files.
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
        self.rows.len() >= MAX_ROWS as usize
            || self.values.len() + self.addresses.len() + self.fields.len() >= FULL
    }

    /// Adds an event. The chunk must not be full.
    #[inline]
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
        // Callers are mostly defined shortly before their callees.
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

    /// Appends the chunk to `out` and begins an empty one.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.end_run();
        self.encode_sites();
        self.encode_threads();
        let directory = out.len();
        out.resize(directory + super::DIRECTORY_LEN, 0);
        let columns: [&[u8]; COLUMNS] = [
            &self.site_bytes,
            &self.narrow_rows,
            &self.thread_bytes,
            &self.runs,
            &self.addresses,
            &self.values,
            &self.fields,
        ];
        for (number, raw) in columns.into_iter().enumerate() {
            self.compressed.clear();
            self.compressed
                .reserve(zstd::zstd_safe::compress_bound(raw.len()));
            self.compressor
                .compress_to_buffer(raw, &mut self.compressed)?;
            // Stored as it is when compression gains nothing; equal lengths tell the reader.
            let stored = if self.compressed.len() < raw.len() {
                &self.compressed
            } else {
                raw
            };
            let entry = directory + number * 8;
            out[entry..entry + 4].copy_from_slice(&(raw.len() as u32).to_le_bytes());
            out[entry + 4..entry + 8].copy_from_slice(&(stored.len() as u32).to_le_bytes());
            out.extend_from_slice(stored);
        }
        self.clear();
        Ok(())
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.sites.clear();
        self.site_numbers.clear();
        self.rows.clear();
        self.threads.clear();
        self.thread_numbers.clear();
        self.run_thread = usize::MAX;
        self.run_len = 0;
        self.runs.clear();
        self.addresses.clear();
        self.values.clear();
        self.fields.clear();
        self.events = 0;
        self.defines = false;
        self.counts = EventCounts::default();
    }

    #[inline]
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
        self.values.extend_from_slice(bytes);
        Ok(())
    }

    /// Adds a row for an event; its site's number is returned.
    #[inline]
    fn row(&mut self, event: &Event<'_>, op: u8, size: u32) -> usize {
        let on_thread = self
            .threads
            .get(self.run_thread)
            .is_some_and(|run| run.thread == event.thread && run.process == event.process);
        if !on_thread {
            self.switch_thread(event.process, event.thread);
        }
        self.run_len += 1;
        self.site_row(SiteKey {
            pc: event.pc.0,
            context: event.context.0,
            size,
            op,
        })
    }

    #[inline]
    fn site_row(&mut self, key: SiteKey) -> usize {
        let previous = self.rows.last().map_or(0, |&site| usize::from(site));
        let guess = self.sites.get(previous).map_or(0, |site| site.next);
        let number = match self.sites.get(usize::from(guess)) {
            Some(site) if site.key == key => guess,
            _ => self.look_up_site(key, previous),
        };
        self.rows.push(number);
        usize::from(number)
    }

    fn look_up_site(&mut self, key: SiteKey, previous: usize) -> u16 {
        let sites = &mut self.sites;
        let number = *self.site_numbers.entry(key).or_insert_with(|| {
            // There are at most as many sites as rows, so the number fits.
            let number = sites.len() as u16;
            sites.push(Site {
                key,
                last_addr: 0,
                next: 0,
            });
            number
        });
        self.sites[previous].next = number;
        number
    }

    #[cold]
    fn switch_thread(&mut self, process: ProcessId, thread: ThreadId) {
        self.end_run();
        let threads = &mut self.threads;
        self.run_thread = *self
            .thread_numbers
            .entry((process, thread))
            .or_insert_with(|| {
                threads.push(Thread {
                    process,
                    thread,
                    last_addr: 0,
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

    #[inline]
    fn address(&mut self, site: usize, addr: Address) {
        let site = &mut self.sites[site];
        let thread = &mut self.threads[self.run_thread];
        let to_thread = zigzag(addr.0.wrapping_sub(thread.last_addr) as i64);
        let to_site = zigzag(addr.0.wrapping_sub(site.last_addr) as i64);
        let (distance, base) = if to_site < to_thread {
            (to_site, 1)
        } else {
            (to_thread, 0)
        };
        if distance < FAR_ADDRESS >> 1 {
            encode(&mut self.addresses, distance << 1 | base);
        } else {
            encode(&mut self.addresses, FAR_ADDRESS);
            encode(&mut self.addresses, addr.0);
        }
        site.last_addr = addr.0;
        thread.last_addr = addr.0;
    }

    fn definition(&mut self, op: u8) {
        self.defines = true;
        self.site_row(SiteKey {
            pc: 0,
            context: 0,
            size: 0,
            op,
        });
    }

    fn rare_event(&mut self, event: &Event<'_>) -> Result<(), WriteError> {
        match event.kind {
            EventKind::Store { .. }
            | EventKind::Load { .. }
            | EventKind::Flush { .. }
            | EventKind::Fence { .. } => unreachable!("the frequent kinds have their own path"),
            EventKind::KernelWrite {
                addr,
                bytes,
                syscall,
            } => {
                check_len(bytes.len())?;
                let site = self.row(event, op::KERNEL_WRITE, 0);
                self.address(site, addr);
                self.fields.put(u64::from(syscall));
                self.fields.put(bytes.len() as u64);
                self.values.extend_from_slice(bytes);
            }
            EventKind::FileWrite {
                file,
                offset,
                bytes,
                syscall,
            } => {
                check_len(bytes.len())?;
                self.row(event, op::FILE_WRITE, 0);
                self.fields.put(u64::from(syscall));
                self.file_range(file, offset, bytes.len() as u64);
                self.values.extend_from_slice(bytes);
            }
            EventKind::FileResize { file, len } => {
                self.row(event, op::FILE_RESIZE, 0);
                self.fields.put(u64::from(file.0));
                self.fields.put(len);
            }
            EventKind::Sync(sync) => self.sync(event, sync),
            EventKind::Map(mapping) => self.map(event, &mapping),
            EventKind::Unmap { addr, len } => {
                self.defining_row(event, op::UNMAP);
                self.fields.put(addr.0);
                self.fields.put(len);
            }
            EventKind::Remap {
                old,
                old_len,
                new,
                new_len,
            } => {
                self.defining_row(event, op::REMAP);
                for field in [old.0, old_len, new.0, new_len] {
                    self.fields.put(field);
                }
            }
            EventKind::Content {
                file,
                offset,
                bytes,
            } => {
                check_len(bytes.len())?;
                self.row(event, op::CONTENT, 0);
                self.file_range(file, offset, bytes.len() as u64);
                self.values.extend_from_slice(bytes);
            }
            EventKind::Protect {
                addr,
                len,
                writable,
            } => {
                self.defining_row(event, op::PROTECT);
                self.fields.put(addr.0);
                self.fields.put(len);
                self.fields.put(u64::from(writable));
            }
            EventKind::Module {
                addr,
                len,
                file_offset,
                path,
                build_id,
            } => {
                check_len(path.as_os_str().len() + build_id.len())?;
                self.defining_row(event, op::MODULE);
                for field in [addr.0, len, file_offset] {
                    self.fields.put(field);
                }
                self.fields.put_path(path);
                self.fields.put_bytes(build_id);
            }
            EventKind::ThreadStart => self.defining_row(event, op::THREAD_START),
            EventKind::ThreadExit => self.defining_row(event, op::THREAD_EXIT),
            EventKind::ProcessStart {
                pid,
                parent_pid,
                parent,
                origin,
                exe,
                args,
            } => {
                check_len(exe.as_os_str().len() + args.as_bytes().len())?;
                self.defining_row(event, op::PROCESS_START);
                self.fields.put(u64::from(pid));
                self.fields.put(u64::from(parent_pid));
                self.fields
                    .put(parent.map_or(0, |parent| u64::from(parent.0) + 1));
                self.fields.put(match origin {
                    ProcessOrigin::Exec => 0,
                    ProcessOrigin::Fork => 1,
                });
                self.fields.put_path(exe);
                self.fields.put_bytes(args.as_bytes());
            }
            EventKind::ProcessExit { end } => {
                self.defining_row(event, op::PROCESS_EXIT);
                put_end(&mut self.fields, end);
            }
            EventKind::Note { text } => {
                check_len(text.len())?;
                self.row(event, op::NOTE, 0);
                self.fields.put_bytes(text.as_bytes());
            }
        }
        Ok(())
    }

    /// A row for an event that changes what a reader knows.
    fn defining_row(&mut self, event: &Event<'_>, op: u8) {
        self.defines = true;
        self.row(event, op, 0);
    }

    fn sync(&mut self, event: &Event<'_>, sync: Sync) {
        match sync {
            Sync::Msync {
                addr,
                len,
                asynchronous,
            } => {
                let site = self.row(event, op::MSYNC, 0);
                self.address(site, addr);
                self.fields.put(len);
                self.fields.put(u64::from(asynchronous));
            }
            Sync::Fsync { file } => self.file_sync(event, op::FSYNC, file),
            Sync::Fdatasync { file } => self.file_sync(event, op::FDATASYNC, file),
            Sync::Syncfs { file } => self.file_sync(event, op::SYNCFS, file),
            Sync::SyncFileRange { file, offset, len } => {
                self.row(event, op::SYNC_FILE_RANGE, 0);
                self.file_range(file, offset, len);
            }
        }
    }

    fn file_sync(&mut self, event: &Event<'_>, op: u8, file: FileId) {
        self.row(event, op, 0);
        self.fields.put(u64::from(file.0));
    }

    fn file_range(&mut self, file: FileId, offset: u64, len: u64) {
        self.fields.put(u64::from(file.0));
        self.fields.put(offset);
        self.fields.put(len);
    }

    fn map(&mut self, event: &Event<'_>, mapping: &Mapping) {
        self.defining_row(event, op::MAP);
        self.fields.put(mapping.addr.0);
        self.file_range(mapping.file, mapping.offset, mapping.len);
        self.fields.put(mapping.file_len);
        self.fields.put(u64::from(mapping.prot));
        self.fields.put(u64::from(mapping.flags));
        self.fields.put(u64::from(mapping.dax));
        self.fields.put(u64::from(mapping.snapshot));
    }

    /// Fills `site_bytes`, and `narrow_rows` in the width that the number of sites asks for.
    fn encode_sites(&mut self) {
        let out = &mut self.site_bytes;
        out.clear();
        out.put(self.sites.len() as u64);
        let (mut pc, mut context) = (0u64, 0u32);
        for Site { key, .. } in &self.sites {
            out.put_signed(key.pc.wrapping_sub(pc) as i64);
            out.put_signed(i64::from(key.context) - i64::from(context));
            out.push(key.op);
            out.put(u64::from(key.size));
            (pc, context) = (key.pc, key.context);
        }
        self.narrow_rows.clear();
        if row_width(self.sites.len()) == 1 {
            self.narrow_rows
                .extend(self.rows.iter().map(|&site| site as u8));
        } else {
            self.narrow_rows
                .extend(self.rows.iter().flat_map(|site| site.to_le_bytes()));
        }
    }

    fn encode_threads(&mut self) {
        self.thread_bytes.clear();
        for thread in &self.threads {
            self.thread_bytes.put(u64::from(thread.process.0));
            self.thread_bytes.put(u64::from(thread.thread.0));
        }
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

/// A hasher for short keys of integers: one multiplication per integer. Keys come from the recorded
/// program, and a flood of collisions would slow only its own recording.
#[derive(Default)]
struct MixHasher(u64);

impl Hasher for MixHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(23) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
