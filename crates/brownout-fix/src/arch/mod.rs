//! What repairs have to know of the target's architecture: how arguments are passed, and how sources name its instructions.

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    ARGUMENT_REGISTERS, C_FENCE, C_WRITE_BACK, C_WRITE_BACK_HEADERS, FENCE_INTRINSIC,
    INTRINSIC_HEADERS, RUST_FENCE, RUST_WRITE_BACK, is_streaming_store, vector_length,
};
