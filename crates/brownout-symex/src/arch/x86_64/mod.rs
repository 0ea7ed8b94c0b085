//! Replay of instructions of x86-64.

mod control_flow;
mod flags;
mod machine;
mod replay;
mod semantics;

pub use control_flow::control_flow;
pub use replay::replay;
