//! A chunk: up to [`MAX_ROWS`](crate::frame::MAX_ROWS) rows, stored by column.
//!
//! A row is an event or a definition. Most of an event does not change from one pass through the
//! program to the next: its instruction, calling context, kind and size. These make up its *site*,
//! and a row is first of all the number of a site. What remains goes to columns of its own: a
//! data address as the distance to an earlier one, bytes stored or read as they are, and the
//! fields of rarer kinds row by row. Each column is compressed by itself.
//!
//! Chunks do not refer to each other: sites and threads are numbered anew in each.

mod address;
mod decode;
mod encode;
mod op;
mod plain;
mod rare;
mod sites;
mod words;

pub(crate) use decode::{ChunkDecoder, ChunkSite, Definition, RowKind};
pub(crate) use encode::{ChunkEncoder, MAX_EVENT};

/// Columns in the order in which they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// The sites: their number, then for each its pc and context as differences to the site before,
    /// its operation and its size.
    Sites,
    /// For each row one byte, or two if there are more than 255 sites: 0 where an event is at the site
    /// that was foretold from its thread's last two, else the site's number plus one.
    Rows,
    /// The threads: process and thread id.
    Threads,
    /// Which thread caused the events: pairs of a thread's number and how many events in a row.
    Runs,
    /// For each row with a data address, its tokens.
    Addresses,
    /// Stored or read values of eight bytes, by plane, each XORed with its site's value before.
    Words,
    /// Stored or read values of other sizes, and the bytes of rarer kinds.
    Values,
    /// Whatever else a rarer kind needs.
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

/// The thread of some events.
#[derive(Clone, Copy)]
struct ChunkThread {
    process: crate::ProcessId,
    thread: crate::ThreadId,
    trail: sites::Trail,
    recent: address::RecentAddresses,
}
