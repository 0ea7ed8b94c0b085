//! The loader, as the build made it: a static program that is executed in the target's place.

/// The ELF image of the loader.
pub static LOADER: &[u8] = &[];
