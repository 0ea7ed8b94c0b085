//! Everything that brownout knows about libraries: which code belongs to them, and what their functions mean.
//!
//! All of it is in one table, [`LIBRARIES`]. The other files describe what a row consists of and look it up:
//!
//! - [`Library`]: modules, function names and source paths. [`Owner`] is the owner of the code of a call-stack frame:
//!   the user or a library.
//! - [`Function`]: a function whose calls an analysis can have recorded, with its [`Purpose`]. An analysis declares
//!   which of them it needs; the command line passes the union to the engine.
//! - [`HeapCall`]: a call that allocates or frees, and what it has done.
//! - [`FrameName`]: what the name of a function in a call stack says.
//! - [`MemoryFunction`]: what a function does to memory, for analyses that read code and sources.
//! - [`SourceCalls`]: how sources that use a library flush, fence and log.
//! - [`ObjectIdentifier`]: how a library identifies persistent objects, if not by pointers.
//!
//! The crate contains only data and lookups. It has no dependencies and performs no I/O. To support another library or
//! function, add it to the table.
//!
//! Can miss: libraries with other names, such as a vendored copy with its own file name and prefix.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod frame_name;
mod function;
mod heap;
mod identifier;
mod library;
mod memory_function;
mod owner;
mod table;
mod transaction;

pub use frame_name::{
    FrameMeaning, FrameName, is_explicit_snapshot, is_linked_c_library, is_lock_function,
    is_start_function, is_thin_entry,
};
pub use function::{
    Acquired, AllocatedSize, AllocationResult, FreedObject, Function, LockFunction, LockOrder,
    OrderFunction, Purpose, function, functions,
};
pub use heap::{HeapCall, HeapEffect, HeapFunction, heap_function};
pub use identifier::{ObjectIdentifier, converts_identifier, object_identifier};
pub use library::{
    Library, LibraryRole, is_binding_source, is_library_header, is_library_module, library_modules,
    persistence_modules,
};
pub use memory_function::{
    LogCall, MemoryEffect, MemoryFunction, PoolNames, SourceCalls, StoredLength, drain_call,
    is_library_name, is_pool_variable, is_sync_function, log_call, memory_effect, persisting_calls,
    pool_names,
};
pub use owner::{FrameNames, Owner};
pub use table::LIBRARIES;
pub use transaction::TxFunction;
