//! Everything that brownout knows about libraries: which code belongs to them, and what their functions mean.
//!
//! - [`LIBRARIES`] lists the libraries with their modules, function names and source paths. [`Owner`] is the owner of the
//!   code of a call-stack frame: the user or a library.
//! - [`FUNCTIONS`] lists the functions whose calls an analysis can have recorded, with their [`Purpose`]. An analysis
//!   declares which of them it needs; the command line passes the union to the engine.
//!
//! The crate contains only data and lookups. It has no dependencies and performs no I/O. To support another library or
//! function, add a row here.
//!
//! Can miss: libraries with other names, such as a vendored copy with its own file name and prefix.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod c_library;
mod function;
mod library;
mod owner;
mod transaction;

pub use c_library::is_linked_c_library;
pub use function::{FUNCTIONS, Function, Purpose, function};
pub use library::{LIBRARIES, Library, LibraryRole, is_library_header, is_library_module};
pub use owner::{
    FrameNames, Owner, is_binding_source, is_explicit_snapshot, is_lock_function, is_thin_entry,
};
pub use transaction::TxFunction;
