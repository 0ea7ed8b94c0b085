//! Maps offsets in program files to functions and source lines.
//!
//! Add modules (a path and the recorded build-id) to a [`Symbolizer`], then ask for the [`SourceFrame`]s of file
//! offsets in them: innermost first, including inlined calls. It reads DWARF 4 and 5, in the file itself, in a
//! separate debug file (found by build-id or `.gnu_debuglink`), split into `.dwo` or `.dwp` files, factored out by
//! `dwz`, compressed or not. Without DWARF it uses the symbol table, and without symbols it gives
//! `module+0xoffset`.
//!
//! A file that has changed since it was recorded is not used: its frames have only module and offset, and a
//! [`ModuleProblem`] gives the reason.
//!
//! [`DataTypes`] reads data types, and [`PointerTypes`] finds the type that an instruction stores to.
//!
//! Not supported: `.gnu_debugdata` (an xz-compressed symbol table that Fedora ships) and debuginfod.

mod arch;
mod build_id;
mod debug_files;
mod dwarf;
mod elf;
mod flow;
mod imports;
mod module_file;
mod module_problem;
mod named_functions;
mod pointer_types;
mod source_frame;
mod symbol_table;
mod symbolizer;
mod sys;
mod types;

pub use build_id::BuildId;
pub use flow::AccessedPart;
pub use module_problem::ModuleProblem;
pub use named_functions::{debug_functions, function_symbols, interpreter};
pub use pointer_types::{Callee, PointerBase, PointerTypes, PointerValue};
pub use source_frame::SourceFrame;
pub use symbolizer::{CodeFunction, CodeLine, FileOffset, ModuleId, Probe, Symbolizer};
pub use types::{DataType, DataTypeId, DataTypes, FieldAt, Member, Shape, TypedModuleId};
