//! What repairs must know of an architecture.

/// General registers that hold arguments.
pub(crate) const ARGUMENT_REGISTERS: usize = 8;

/// A function that writes cache lines back.
pub(crate) const C_WRITE_BACK: &str = "";
/// The headers that it needs.
pub(crate) const C_WRITE_BACK_HEADERS: &[&str] = &[];
pub(crate) const RUST_WRITE_BACK: &str = "";

/// Headers that declare intrinsics.
pub(crate) const INTRINSIC_HEADERS: [&str; 1] = ["intrinsics.h"];
/// A fence in a file with one of these headers.
pub(crate) const FENCE_INTRINSIC: &str = "";
/// A fence in any other file.
pub(crate) const C_FENCE: &str = "";
pub(crate) const RUST_FENCE: &str = "";

/// The length of what a vector intrinsic of that name stores.
pub(crate) fn vector_length(_name: &str) -> Option<&'static str> {
    None
}

/// Whether an intrinsic stores a single number past the cache.
pub(crate) fn is_streaming_store(_name: &str) -> bool {
    false
}
