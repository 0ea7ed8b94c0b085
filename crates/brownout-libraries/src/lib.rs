//! What brownout knows about libraries, in one place: which code is theirs, and what their functions mean.
//!
//! - [`LIBRARIES`] lists the libraries with their modules, function names and source paths. [`Owner`] says whose
//!   code a frame of a call stack is.
//! - [`FUNCTIONS`] lists the functions whose calls an analysis can have recorded, with their [`Purpose`]. An analysis
//!   declares which of them it needs; the command line passes the union to the engine.
//!
//! Pure data and lookups: no dependencies, no input or output. To teach brownout about another library or function,
//! add a row here.
//!
//! Can miss: libraries under other names, such as a vendored copy with its own file name and prefix.
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
