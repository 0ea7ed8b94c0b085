//! What depends on the processor: replay of its instructions, and the pointers and the control flow of its code.
//! The only module that names an architecture.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::{
    ARCHITECTURE, ARCHITECTURE_NAME, FunctionCode, PointerState, control_flow, replay,
};
