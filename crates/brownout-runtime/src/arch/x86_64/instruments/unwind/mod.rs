//! Unwinding without tables, from the instructions themselves.

pub mod code_scan;
pub mod guess;
pub mod registers;

#[cfg(test)]
mod tests;
