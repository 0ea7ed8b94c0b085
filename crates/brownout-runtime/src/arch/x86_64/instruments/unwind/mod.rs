//! Unwinding without tables, from the instructions themselves.

pub mod ahead;
pub mod guess;
pub mod registers;

#[cfg(test)]
mod tests;
