//! What the registers of a function hold, in terms of the objects that they point to.
//!
//! A debugger can show what a store changes only where a variable holds the pointer; optimised code keeps it in registers that no
//! variable describes. This analysis follows values forward through the code of a function: from parameters, variables, globals
//! and results of calls, through loads of pointer members, to the address of each store (Squint §4.4.2 uses the compiler's
//! intermediate code instead). It needs no debug information to relate the stores of a function to one another; with it, values have
//! types.
//!
//! | file | idea |
//! |---|---|
//! | `value` | what a register can hold |
//! | `frames` | where functions start and end, also without symbols |
//! | `blocks` | the control flow of a function |
//! | `contents` | what memory of a type holds |
//! | `code_module` | the code of a module, and what it refers to by address |
//! | `variables` | what variables say about registers and the frame |
//! | `state` | what registers and the stack hold at one instruction |
//! | `function` | the analysis of one function |
//!
//! Can miss: values that pass through wide vector registers or memory other than the stack, and pointers that are computed by bit
//! operations. Where several paths meet, a value with a type wins over one without.

mod blocks;
mod code_module;
mod contents;
mod frames;
mod function;
mod state;
mod value;
mod variables;

pub(crate) use code_module::CodeModule;
pub use contents::AccessedPart;
pub(crate) use function::{FunctionFlow, analyse};
pub(crate) use value::{Base, Value, gcd};
