//! From a place in a program file to the source lines it came from.
//!
//! A [`Symbolizer`] is told of modules (a path and the build-id that was recorded for it) and asked
//! for the [`SourceFrame`]s of file offsets in them, innermost first, inlined calls included. It reads
//! DWARF 4 and 5, in the file itself, in a separate debug file (found by build-id or
//! `.gnu_debuglink`), split into `.dwo` or `.dwp` files, factored out by `dwz`, compressed or not.
//! Where there is no DWARF it falls back to the symbol table, and where there is none of that
//! either to `module+0xoffset`.
//!
//! A file that is no longer the one recorded is never read for names: the frames stay bare and the
//! reason is kept as a [`ModuleProblem`].
//!
//! Not done: `.gnu_debugdata` (an xz-compressed symbol table that Fedora ships) and debuginfod.

mod build_id;
mod debug_files;
mod demangle;
mod dwarf;
mod elf;
mod imports;
mod module_file;
mod module_problem;
mod source_frame;
mod symbol_table;
mod symbolizer;
mod sys;

pub use build_id::BuildId;
pub use demangle::demangle;
pub use module_problem::ModuleProblem;
pub use source_frame::SourceFrame;
pub use symbolizer::{FileOffset, ModuleId, Probe, Symbolizer};
