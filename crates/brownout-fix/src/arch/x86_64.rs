//! The System V calling convention, and the intrinsics and assembly by which C, C++ and Rust store, flush and fence on x86-64.

/// General registers that hold arguments.
pub(crate) const ARGUMENT_REGISTERS: usize = 6;

/// A function that writes cache lines back. A bare `clwb` is an invalid instruction on older CPUs, so it asks CPUID. The
/// instructions are spelled with a prefix before `clflush` and `xsaveopt`, so that no compiler flag is needed.
pub(crate) const C_WRITE_BACK: &str = include_str!("../../helpers/pm_write_back.c");
/// The headers that it needs.
pub(crate) const C_WRITE_BACK_HEADERS: &[&str] = &["cpuid.h"];
pub(crate) const RUST_WRITE_BACK: &str = include_str!("../../helpers/pm_write_back.rust");

/// Headers that declare intrinsics.
pub(crate) const INTRINSIC_HEADERS: [&str; 2] = ["mmintrin.h", "immintrin.h"];
/// A fence in a file with one of these headers.
pub(crate) const FENCE_INTRINSIC: &str = "_mm_sfence();";
/// A fence in any other file.
pub(crate) const C_FENCE: &str = "__builtin_ia32_sfence();";
pub(crate) const RUST_FENCE: &str =
    "std::arch::asm!(\"sfence\", options(nostack, preserves_flags))";

/// The length of what a vector intrinsic of that name stores.
pub(crate) fn vector_length(name: &str) -> Option<&'static str> {
    let widths = [("_mm_", "16"), ("_mm256_", "32"), ("_mm512_", "64")];
    let (prefix, width) = widths.iter().find(|(prefix, _)| name.starts_with(prefix))?;
    let operation = &name[prefix.len()..];
    // Those of single numbers are named after them.
    let is_single = ["_si32", "_si64", "_ss", "_sd", "_pi"]
        .iter()
        .any(|end| operation.ends_with(end));
    let stores = operation.starts_with("store") || operation.starts_with("stream");
    (stores && !is_single).then_some(width)
}

/// Whether an intrinsic stores a single number past the cache.
pub(crate) fn is_streaming_store(name: &str) -> bool {
    name.starts_with("_mm_stream_")
}
