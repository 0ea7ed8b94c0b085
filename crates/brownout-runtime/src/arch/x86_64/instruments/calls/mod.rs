//! Calls of watched functions, recorded in assembly.

pub mod fast_path;
