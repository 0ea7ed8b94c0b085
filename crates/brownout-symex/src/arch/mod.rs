//! What depends on the processor: the only module that names an architecture.

mod x86_64;
pub use x86_64::*;
