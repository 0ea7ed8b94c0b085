//! The trace: a stream of events that records what a target did to persistent memory.
//!
//! A recorder writes [`Event`]s with a [`TraceWriter`]. An analysis streams them back with a [`TraceReader`], which also
//! maintains the [`Definitions`] that events refer to: processes, threads, modules, mappings, files, watched functions
//! and the tree of calling contexts. [`replay`] rebuilds the content of the files at any event, and
//! [`selection`] decides which of the files are persistent memory. `docs/trace-format.md` describes the
//! file byte by byte.
//!
//! This crate does not depend on where events come from or on what they mean for persistence.
//!
//! # Example
//!
//! ```
//! use std::io::Cursor;
//! use std::time::SystemTime;
//!
//! use brownout_trace::{
//!     Address, AppPc, ContextId, Ending, Event, EventIndex, EventKind, Header, ProcessId,
//!     StoreFlavor, ThreadId, TraceReader, TraceWriter,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let header = Header {
//!     brownout_version: "0.1.0".into(),
//!     command: vec!["./kvstore".into()],
//!     cwd: "/home/user".into(),
//!     pm: Vec::new(),
//!     loads: false,
//!     shared_loads: false,
//!     started: SystemTime::now(),
//! };
//! let mut writer = TraceWriter::new(Vec::new(), &header)?;
//! writer.write(&Event {
//!     index: EventIndex(0), // the writer numbers the events itself
//!     process: ProcessId(0),
//!     thread: ThreadId(100),
//!     pc: AppPc(0x401000),
//!     context: ContextId::ROOT,
//!     kind: EventKind::Store {
//!         addr: Address(0x7f00_0000_0000),
//!         bytes: &[1, 0, 0, 0],
//!         flavor: StoreFlavor::Temporal,
//!         locked: false,
//!         string: false,
//!     },
//! })?;
//! let (_, bytes) = writer.finish(Ending::default())?;
//!
//! let mut reader = TraceReader::new(Cursor::new(bytes))?;
//! while let Some(event) = reader.next()? {
//!     if let EventKind::Store { addr, bytes, .. } = event.kind {
//!         println!("thread {} stored {} bytes to {addr}", event.thread, bytes.len());
//!     }
//! }
//! # assert_eq!(reader.events(), 1);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod address_space;
mod chunk;
mod closing;
mod contexts;
mod definitions;
mod error;
mod event;
mod event_class;
mod event_comparison;
mod failed_sync;
mod fields;
mod header;
mod ids;
mod index;
mod reader;
mod recognised_locks;
pub mod replay;
mod section;
mod section_header;
pub mod selection;
mod summary;
mod varint;
mod visitor;
mod writer;

pub use address_space::{AddressSpace, FileRange};
pub use contexts::{ContextFrames, FOLDED_RECURSION};
pub use definitions::{Definitions, FileIdentity, MappedFile, Module, Process, Thread};
pub use error::{Damage, Flaw, ReadError, WriteError};
pub use event::{
    Arguments, CallArguments, Event, EventKind, FenceKind, FlushKind, Mapping, ProcessEnd,
    ProcessOrigin, RENAME_NOTE, StoreFlavor, Sync, ThreadParent,
};
pub use event_class::EventClass;
pub use event_comparison::{Difference, first_difference};
pub use failed_sync::{FAILED_SYNC_NOTE, FailedCall, FailedSync};
pub use header::Header;
pub use ids::{
    Address, AppPc, ContextId, EventIndex, FileId, FunctionId, ProcessId, ThreadId, ThreadKey,
};
pub use reader::TraceReader;
pub use recognised_locks::{LockMode, RecognisedLock, RecognisedLocks};
pub use section_header::{FORMAT_VERSION, OLDEST_VERSION};
pub use summary::{EarlyStop, Ending, EventCounts, Summary};
pub use visitor::{EventPosition, ThreadRun, Visitor};
pub use writer::{TraceSink, TraceWriter};
