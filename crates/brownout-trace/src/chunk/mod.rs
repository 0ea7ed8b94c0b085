//! A chunk: up to [`MAX_ROWS`](crate::section_header::MAX_ROWS) rows, stored by column.
//!
//! A row is an event or a definition. Most of an event is the same each time an instruction is executed: the instruction,
//! its calling context, kind and size. These are its *site*, and one column has the number of the site of each row. The rest
//! is in other columns: data addresses as distances from earlier ones, bytes that were stored or loaded, and the fields of
//! less frequent events. Each column is compressed separately.
//!
//! Chunks do not refer to each other: each has its own numbering of sites and threads.

mod address;
mod decode;
mod encode;
mod op;
mod plain;
mod rare;
mod run;
mod sites;
mod words;

pub(crate) use decode::{ChunkDecoder, ChunkSite, Definition, RowKind};
pub(crate) use encode::{ChunkEncoder, MAX_EVENT};
pub(crate) use sites::MixHasher;

/// Columns in the order in which they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// The sites: their number, then for each its pc and context as differences to the previous site, its operation and its
    /// size.
    Sites,
    /// For each row one byte, or two if there are more than 255 sites: 0 if the event is at the site that was predicted from
    /// the last two sites of its thread, else the site's number plus one.
    Rows,
    /// The threads: process and thread id.
    Threads,
    /// The threads of the events: pairs of a thread's number and a number of consecutive events.
    Runs,
    /// For each row with a data address, its tokens.
    Addresses,
    /// Stored or loaded values of eight bytes, by plane, each XORed with the previous value of its site.
    Words,
    /// Stored or loaded values of other sizes, and the bytes of less frequent events.
    Values,
    /// The other fields of less frequent events, and definitions.
    Fields,
}

impl Column {
    const COUNT: usize = 8;
}

/// Bytes of the column directory: length before and after compression, four bytes each.
const DIRECTORY_LEN: usize = Column::COUNT * 8;

/// Bytes per row of [`Column::Rows`].
fn row_width(sites: usize) -> usize {
    if sites <= 255 { 1 } else { 2 }
}

/// A thread with events in the chunk.
#[derive(Clone, Copy)]
struct ChunkThread {
    process: crate::ProcessId,
    thread: crate::ThreadId,
    last_sites: sites::LastSites,
    recent: address::RecentAddresses,
}
