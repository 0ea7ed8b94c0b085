//! Errors of writing and reading a trace.

use std::io;

use thiserror::Error;

use crate::ids::EventIndex;
use crate::section_header::{FORMAT_VERSION, OLDEST_VERSION};

/// Why a trace could not be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The disk is full, or the quota or file size limit is reached. The part that was written is readable; the writer
    /// accepts no more events.
    #[error("no room left for the trace after event {events}")]
    StorageFull {
        /// Events that are safely in the file.
        events: u64,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
    /// Another error of a system call.
    #[error("cannot write the trace")]
    Io(#[from] io::Error),
    /// One event has more bytes than a chunk may contain. The caller must split it.
    #[error("an event has {len} bytes; a trace can store at most {limit} per event")]
    EventTooLong {
        /// Bytes of the event.
        len: usize,
        /// The maximum number of bytes in one event.
        limit: usize,
    },
    /// An earlier write failed. Later events are not accepted, because the failed ones would be missing.
    #[error("the trace was closed by an earlier error")]
    Closed,
}

/// Why a trace, or the rest of it, could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// An error of a system call.
    #[error("cannot read the trace")]
    Io(#[from] io::Error),
    /// The file does not start like a trace.
    #[error(
        "not a brownout trace; give the file that `brownout record -o` wrote, or a results directory"
    )]
    NotATrace,
    /// The trace was written by an older brownout, in a format that is no longer supported.
    #[error(
        "the trace has format version {found}, but this version of brownout reads versions {OLDEST_VERSION} to \
         {FORMAT_VERSION}; record the program again"
    )]
    VersionTooOld {
        /// The version of the trace.
        found: u32,
    },
    /// The trace was written by a newer brownout.
    #[error(
        "the trace has format version {found}, but this version of brownout reads versions {OLDEST_VERSION} to \
         {FORMAT_VERSION}; use a brownout at least as new as the one that recorded it"
    )]
    VersionTooNew {
        /// The version of the trace.
        found: u32,
    },
    /// The trace is truncated or altered. All events before [`Damage::event`] have been returned.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// [`TraceReader::seek`](crate::TraceReader::seek) beyond the end.
    #[error("event {event} is not in the trace, which holds {events} events")]
    NoSuchEvent {
        /// The requested event.
        event: EventIndex,
        /// The number of events in the trace.
        events: u64,
    },
}

/// Where and why a trace cannot be read further.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("the trace is readable only up to byte {byte}, event {event}: {flaw}")]
pub struct Damage {
    /// Offset in the file of the part that cannot be read.
    pub byte: u64,
    /// The first event that could not be read.
    pub event: EventIndex,
    /// The reason.
    pub flaw: Flaw,
}

/// What is wrong with a part of a trace.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// The file ends in the middle of a section.
    #[error("the file ends in the middle of a section")]
    Truncated,
    /// The first bytes of the file were altered.
    #[error("the checksum of the first bytes does not match them")]
    Preamble,
    /// The end of the file is missing or altered, though the recorder finished the trace.
    #[error("the end of the file is missing or altered")]
    Trailer,
    /// The checksum of a section does not match its content.
    #[error("a section's checksum does not match its content")]
    Checksum,
    /// There is no section where one should start.
    #[error("there is no section where one should start")]
    UnknownSection,
    /// A section claims to be larger than any section may be.
    #[error("a section claims to be larger than any section may be")]
    TooLarge,
    /// A section is missing or out of order.
    #[error("a section is missing or out of order")]
    OutOfOrder,
    /// A section cannot be decompressed.
    #[error("a section cannot be decompressed")]
    Compression,
    /// A field is cut off.
    #[error("a field is cut off")]
    FieldCutOff,
    /// A field has an invalid value.
    #[error("a field has an invalid value")]
    BadField,
    /// A row refers to a site or thread that is not defined.
    #[error("a row refers to a site or thread that is not defined")]
    BadReference,
    /// A column is shorter or longer than its rows need.
    #[error("a column is shorter or longer than its rows need")]
    ColumnLength,
}
