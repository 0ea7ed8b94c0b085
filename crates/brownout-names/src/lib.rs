//! Names of functions: demangling, and the patterns by which users give functions to brownout.
//!
//! Every option, suppression and oracle that takes a function uses [`FunctionPattern`], so that all of them accept the same
//! spellings: as in the symbol table, as people write the function, with and without parameters, qualified or not, with `*`.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod demangle;
mod function_pattern;
mod name_parts;
mod near;
mod wildcard;

pub use demangle::demangle;
pub use function_pattern::{FunctionPattern, NameMatch};
pub use near::nearest;
pub use wildcard::Wildcard;
