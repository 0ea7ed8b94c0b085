//! The loader that `build.rs` built: a static program that is executed in place of the target.

/// The ELF image of the loader.
pub static LOADER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/brownout-loader"));
