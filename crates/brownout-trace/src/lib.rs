//! The trace: what a recorded program did to persistent memory.
//!
//! A recorder writes [`Event`]s with a [`TraceWriter`]; analyses stream them back with a
//! [`TraceReader`], which also keeps the [`Definitions`] that events refer to: processes, modules,
//! mappings, files, and the tree of calling contexts. [`replay`] rebuilds the files as they were at any
//! event. `docs/trace-format.md` describes the file byte by byte.
//!
//! This crate knows neither where events come from nor what they mean for persistence.
#![forbid(unsafe_code)]

mod address_space;
mod chunk;
mod contexts;
mod definitions;
mod error;
mod event;
mod event_class;
mod fields;
mod frame;
mod header;
mod ids;
mod index;
mod reader;
pub mod replay;
mod section;
pub mod selection;
mod summary;
mod varint;
mod visitor;
mod writer;

pub use address_space::{AddressSpace, FileRange};
pub use contexts::ContextFrames;
pub use definitions::{Definitions, FileIdentity, MappedFile, Module, Process, Thread};
pub use error::{Damage, Flaw, ReadError, WriteError};
pub use event::{
    Arguments, CallArguments, Event, EventKind, FenceKind, FlushKind, Mapping, ProcessEnd,
    ProcessOrigin, StoreFlavor, Sync, ThreadParent,
};
pub use event_class::EventClass;
pub use frame::{FORMAT_VERSION, OLDEST_VERSION};
pub use header::Header;
pub use ids::{Address, AppPc, ContextId, EventIndex, FileId, FunctionId, ProcessId, ThreadId};
pub use reader::TraceReader;
pub use summary::{EarlyStop, Ending, EventCounts, Summary};
pub use visitor::{At, Run, Visitor};
pub use writer::{TraceSink, TraceWriter};
