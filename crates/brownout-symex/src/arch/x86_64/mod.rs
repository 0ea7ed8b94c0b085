//! Replay of instructions of x86-64, and what their code does without being replayed.

mod control_flow;
mod flags;
mod machine;
mod pointers;
mod replay;
mod semantics;
mod system_calls;

pub use control_flow::control_flow;
pub use pointers::{ARCHITECTURE, ARCHITECTURE_NAME, FunctionCode, PointerState};
pub use replay::replay;
