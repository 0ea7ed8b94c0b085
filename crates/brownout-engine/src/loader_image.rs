//! The loader, as `build.rs` made it: a static program that is executed in the target's place.

/// The ELF image of the loader.
pub static LOADER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/brownout-loader"));
