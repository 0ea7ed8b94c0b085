//! Turns a chunk back into rows. Nothing in a chunk is trusted: every length, number and code is
//! checked before it is used.

use std::io;
use std::path::Path;

use zstd::bulk::Decompressor;

use super::{COLUMNS, Column, DIRECTORY_LEN, FAR_ADDRESS, op, row_width};
use crate::definitions::FileIdentity;
use crate::error::Flaw;
use crate::event::{Arguments, Event, EventKind, Mapping, ProcessOrigin, Sync};
use crate::fields::FieldReader;
use crate::frame::{FrameHeader, MAX_SECTION};
use crate::ids::{Address, AppPc, ContextId, EventIndex, FileId, ProcessId, ThreadId};
use crate::summary::take_end;
use crate::varint::{self, unzigzag};

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
}

#[derive(Clone, Copy)]
struct Site {
    pc: AppPc,
    last_addr: u64,
    context: ContextId,
    size: u32,
    op: u8,
}

#[derive(Clone, Copy)]
struct Thread {
    process: ProcessId,
    thread: ThreadId,
    last_addr: u64,
}

/// The chunk that is being read, decompressed.
pub(crate) struct ChunkDecoder {
    decompressor: Decompressor<'static>,
    /// Each with [`varint::PADDING`] after its end.
    columns: [Vec<u8>; COLUMNS],
    sites: Vec<Site>,
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
    at_values: usize,
    at_fields: usize,
}

impl ChunkDecoder {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(ChunkDecoder {
            decompressor: Decompressor::new()?,
            columns: std::array::from_fn(|_| vec![0; varint::PADDING]),
            sites: Vec::new(),
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
        (
            self.at_runs,
            self.at_addresses,
            self.at_values,
            self.at_fields,
        ) = (0, 0, 0, 0);
        self.decompress(stored)?;
        self.load_sites()?;
        self.load_threads()?;
        self.wide_rows = row_width(self.sites.len()) == 2;
        let rows = frame.rows as usize;
        if self.sites.len() > rows || self.threads.len() > rows {
            return Err(Flaw::BadReference);
        }
        if rows * row_width(self.sites.len()) != self.column_len(Column::Rows) {
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
        for (number, column) in self.columns.iter_mut().enumerate() {
            let entry = &directory[number * 8..number * 8 + 8];
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
            column.resize(raw_len + varint::PADDING, 0);
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(Flaw::ColumnLength)
        }
    }

    fn load_sites(&mut self) -> Result<(), Flaw> {
        self.sites.clear();
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
                last_addr: 0,
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
                last_addr: 0,
            });
        }
        Ok(())
    }

    /// The site of the next row, or `None` after the last.
    #[inline]
    fn next_site(&self) -> Result<Option<(usize, &Site)>, Flaw> {
        if self.row >= self.rows {
            return Ok(None);
        }
        let rows = self.column(Column::Rows);
        // The padding makes the two-byte load of the last row valid in either width.
        let number = if self.wide_rows {
            usize::from(rows[2 * self.row]) | usize::from(rows[2 * self.row + 1]) << 8
        } else {
            usize::from(rows[self.row])
        };
        let site = self.sites.get(number).ok_or(Flaw::BadReference)?;
        Ok(Some((number, site)))
    }

    /// What the next row is. At the end, whether all columns are used up.
    #[inline]
    pub(crate) fn peek(&self) -> Result<RowKind, Flaw> {
        match self.next_site()? {
            Some((_, site)) if site.op < op::DEFINITIONS => Ok(RowKind::Event),
            Some(_) => Ok(RowKind::Definition),
            None => self.check_end().map(|()| RowKind::End),
        }
    }

    #[cold]
    fn check_end(&self) -> Result<(), Flaw> {
        let used_up = self.events_left == 0
            && self.run_left == 0
            && self.at_runs == self.column_len(Column::Runs)
            && self.at_addresses == self.column_len(Column::Addresses)
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
        let (_, site) = self.next_site()?.ok_or(Flaw::ColumnLength)?;
        let op = site.op;
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
            _ => return Err(Flaw::BadField),
        };
        self.at_fields = fields.position();
        Ok(definition)
    }

    /// The next row, which [`peek`](Self::peek) called an event.
    #[inline]
    pub(crate) fn event(&mut self) -> Result<Event<'_>, Flaw> {
        let (number, site) = self.next_site()?.ok_or(Flaw::ColumnLength)?;
        let Site {
            pc,
            context,
            size,
            op,
            ..
        } = *site;
        self.row += 1;
        if self.run_left == 0 {
            self.next_run()?;
        }
        self.run_left -= 1;
        let Thread {
            process, thread, ..
        } = self.threads[self.run_thread];
        let index = EventIndex(self.next_event);
        self.events_left = self.events_left.checked_sub(1).ok_or(Flaw::ColumnLength)?;
        self.next_event += 1;
        let kind = if op < op::STORE_END {
            let addr = self.address(number)?;
            let (flavor, locked, string) = op::store_parts(op);
            EventKind::Store {
                addr,
                bytes: self.values(size as usize)?,
                flavor,
                locked,
                string,
            }
        } else if let Some((kind, volatile)) = op::flush_parts(op) {
            EventKind::Flush {
                addr: self.address(number)?,
                kind,
                volatile,
            }
        } else if let Some(kind) = op::fence_kind(op) {
            EventKind::Fence { kind }
        } else if op == op::LOAD {
            EventKind::Load {
                addr: self.address(number)?,
                bytes: self.values(size as usize)?,
            }
        } else {
            self.rare_kind(op, number)?
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

    #[cold]
    fn next_run(&mut self) -> Result<(), Flaw> {
        let runs = &self.columns[Column::Runs as usize];
        let mut fields = FieldReader::new(runs, self.at_runs);
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
    fn address_token(&mut self) -> Result<u64, Flaw> {
        let column = &self.columns[Column::Addresses as usize];
        let end = column.len() - varint::PADDING;
        let (token, next) =
            varint::decode(column, self.at_addresses, end).ok_or(Flaw::ColumnLength)?;
        self.at_addresses = next;
        Ok(token)
    }

    #[inline]
    fn address(&mut self, site: usize) -> Result<Address, Flaw> {
        let token = self.address_token()?;
        let far = if token == FAR_ADDRESS {
            Some(self.address_token()?)
        } else {
            None
        };
        let site = &mut self.sites[site];
        let thread = &mut self.threads[self.run_thread];
        let base = if token & 1 != 0 {
            site.last_addr
        } else {
            thread.last_addr
        };
        let addr = far.unwrap_or_else(|| base.wrapping_add(unzigzag(token >> 1) as u64));
        site.last_addr = addr;
        thread.last_addr = addr;
        Ok(Address(addr))
    }

    #[inline]
    fn values(&mut self, len: usize) -> Result<&[u8], Flaw> {
        let column = &self.columns[Column::Values as usize];
        let from = self.at_values;
        let to = from.checked_add(len).ok_or(Flaw::ColumnLength)?;
        if to > column.len() - varint::PADDING {
            return Err(Flaw::ColumnLength);
        }
        self.at_values = to;
        Ok(&column[from..to])
    }

    #[cold]
    fn rare_kind(&mut self, op: u8, site: usize) -> Result<EventKind<'_>, Flaw> {
        let addr = match op {
            op::KERNEL_WRITE | op::MSYNC => self.address(site)?,
            _ => Address(0),
        };
        let mut fields = FieldReader::new(&self.columns[Column::Fields as usize], self.at_fields);
        let mut bytes_len = None;
        let mut kind = match op {
            op::KERNEL_WRITE => {
                let syscall = fields.take_u16()?;
                bytes_len = Some(fields.take()?);
                EventKind::KernelWrite {
                    addr,
                    bytes: &[],
                    syscall,
                }
            }
            op::FILE_WRITE => {
                let syscall = fields.take_u16()?;
                let (file, offset, len) = take_file_range(&mut fields)?;
                bytes_len = Some(len);
                EventKind::FileWrite {
                    file,
                    offset,
                    bytes: &[],
                    syscall,
                }
            }
            op::CONTENT => {
                let (file, offset, len) = take_file_range(&mut fields)?;
                bytes_len = Some(len);
                EventKind::Content {
                    file,
                    offset,
                    bytes: &[],
                }
            }
            op::FILE_RESIZE => EventKind::FileResize {
                file: FileId(fields.take_u32()?),
                len: fields.take()?,
            },
            op::MSYNC => EventKind::Sync(Sync::Msync {
                addr,
                len: fields.take()?,
                asynchronous: fields.take_bool()?,
            }),
            op::FSYNC => EventKind::Sync(Sync::Fsync {
                file: FileId(fields.take_u32()?),
            }),
            op::FDATASYNC => EventKind::Sync(Sync::Fdatasync {
                file: FileId(fields.take_u32()?),
            }),
            op::SYNCFS => EventKind::Sync(Sync::Syncfs {
                file: FileId(fields.take_u32()?),
            }),
            op::SYNC_FILE_RANGE => {
                let (file, offset, len) = take_file_range(&mut fields)?;
                EventKind::Sync(Sync::SyncFileRange { file, offset, len })
            }
            op::MAP => EventKind::Map(take_mapping(&mut fields)?),
            op::UNMAP => EventKind::Unmap {
                addr: Address(fields.take()?),
                len: fields.take()?,
            },
            op::REMAP => EventKind::Remap {
                old: Address(fields.take()?),
                old_len: fields.take()?,
                new: Address(fields.take()?),
                new_len: fields.take()?,
            },
            op::PROTECT => EventKind::Protect {
                addr: Address(fields.take()?),
                len: fields.take()?,
                writable: fields.take_bool()?,
            },
            op::MODULE => EventKind::Module {
                addr: Address(fields.take()?),
                len: fields.take()?,
                file_offset: fields.take()?,
                path: fields.take_path()?,
                build_id: fields.take_bytes()?,
            },
            op::THREAD_START => EventKind::ThreadStart,
            op::THREAD_EXIT => EventKind::ThreadExit,
            op::PROCESS_START => take_process_start(&mut fields)?,
            op::PROCESS_EXIT => EventKind::ProcessExit {
                end: take_end(&mut fields)?,
            },
            op::NOTE => EventKind::Note {
                text: fields.take_str()?,
            },
            _ => return Err(Flaw::BadField),
        };
        self.at_fields = fields.position();
        if let Some(len) = bytes_len {
            let len = usize::try_from(len).map_err(|_| Flaw::ColumnLength)?;
            let values = &self.columns[Column::Values as usize];
            let to = self.at_values.checked_add(len).ok_or(Flaw::ColumnLength)?;
            if to > values.len() - varint::PADDING {
                return Err(Flaw::ColumnLength);
            }
            let found = &values[self.at_values..to];
            self.at_values = to;
            if let EventKind::KernelWrite { bytes, .. }
            | EventKind::FileWrite { bytes, .. }
            | EventKind::Content { bytes, .. } = &mut kind
            {
                *bytes = found;
            }
        }
        Ok(kind)
    }
}

/// What [`ChunkDecoder::peek`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    Event,
    Definition,
    End,
}

fn take_file_range(fields: &mut FieldReader<'_>) -> Result<(FileId, u64, u64), Flaw> {
    Ok((FileId(fields.take_u32()?), fields.take()?, fields.take()?))
}

fn take_mapping(fields: &mut FieldReader<'_>) -> Result<Mapping, Flaw> {
    let addr = Address(fields.take()?);
    let (file, offset, len) = take_file_range(fields)?;
    Ok(Mapping {
        addr,
        len,
        file,
        offset,
        file_len: fields.take()?,
        prot: fields.take_u32()?,
        flags: fields.take_u32()?,
        dax: fields.take_bool()?,
        snapshot: fields.take_bool()?,
    })
}

fn take_process_start<'a>(fields: &mut FieldReader<'a>) -> Result<EventKind<'a>, Flaw> {
    let pid = fields.take_u32()?;
    let parent_pid = fields.take_u32()?;
    let parent = match fields.take()? {
        0 => None,
        number => Some(ProcessId(
            u32::try_from(number - 1).map_err(|_| Flaw::BadField)?,
        )),
    };
    let origin = if fields.take_bool()? {
        ProcessOrigin::Fork
    } else {
        ProcessOrigin::Exec
    };
    let exe = fields.take_path()?;
    let args = Arguments::from_bytes(fields.take_bytes()?);
    Ok(EventKind::ProcessStart {
        pid,
        parent_pid,
        parent,
        origin,
        exe,
        args,
    })
}
