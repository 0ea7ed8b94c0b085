//! The instruments' parts that know x86-64.

pub mod calls;
pub mod coverage;
pub mod events;
pub mod fuzz;
pub mod hold;
pub mod locks;
pub mod other_inputs;
pub mod patch;
pub mod path;
pub mod pm;
pub mod schedule;
pub mod unwind;

#[cfg(test)]
mod tests;
