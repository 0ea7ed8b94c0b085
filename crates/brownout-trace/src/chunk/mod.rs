//! A chunk: up to [`MAX_ROWS`](crate::frame::MAX_ROWS) rows, stored by column.
//!
//! A row is an event or a definition. Most of an event does not change from one pass through the
//! program to the next: its instruction, calling context, kind and size. These make up its *site*,
//! and a row is first of all the number of a site. What remains goes to columns of its own: a
//! data address as the difference to an earlier one, bytes stored or read as they are, and the
//! fields of rarer kinds row by row. Each column is compressed by itself.
//!
//! Chunks do not refer to each other: sites and threads are numbered anew in each.

mod decode;
mod encode;
mod op;

pub(crate) use decode::{ChunkDecoder, Definition, RowKind};
pub(crate) use encode::{ChunkEncoder, MAX_EVENT};

/// Columns in the order in which they are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// The sites: their number, then for each its pc and context as differences to the site before,
    /// its operation and its size.
    Sites,
    /// For each row its site: one byte, or two if there are more than 256 sites.
    Rows,
    /// The threads: process and thread id.
    Threads,
    /// Which thread caused the events: pairs of a thread's number and how many events in a row.
    Runs,
    /// For each row with a data address, its token.
    Addresses,
    /// Bytes stored, read or found.
    Values,
    /// Whatever else a kind needs.
    Fields,
}

pub(crate) const COLUMNS: usize = 7;

/// Bytes of the column directory: length before and after compression, four bytes each.
pub(crate) const DIRECTORY_LEN: usize = COLUMNS * 8;

/// How a data address is told: zigzag of the difference to a base, shifted left by one, plus one if
/// the base is the site's last address instead of the thread's. This token announces an address too
/// far from both, in full as the next token.
pub(crate) const FAR_ADDRESS: u64 = u64::MAX;

/// Bytes per row of [`Column::Rows`].
pub(crate) fn row_width(sites: usize) -> usize {
    if sites <= 256 { 1 } else { 2 }
}
