//! What depends on the processor: the only module that names an architecture.
//!
//! The rest of the crate uses the names that are exported here and that every architecture provides.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;
