//! Instructions that access persistent memory: their forms, their emission and their emulation.

pub mod begin;
pub mod code;
pub mod effective_address;
pub mod emit;
pub mod emulate;
pub mod fast_path;
pub mod form;
pub mod intent;
pub mod register_area;
pub mod repeated_load;
pub mod string;
pub mod syscalls;
pub mod through_cache;
pub mod tile;
pub mod vector;
