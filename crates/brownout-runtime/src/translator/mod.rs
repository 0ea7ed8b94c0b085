//! The translator: runs the target from a code cache and keeps that invisible to it.

pub mod cache;
pub mod context;
pub mod discoveries;
pub mod dispatch;
pub mod load;
pub mod map_lock;
pub mod process;
pub mod signal;
pub mod space;
pub mod start;
pub mod syscall;
pub mod translate;
