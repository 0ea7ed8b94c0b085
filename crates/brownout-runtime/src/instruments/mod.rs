//! The instruments that observe the target, and what they share.

pub mod calling_context;
pub mod calls;
pub mod pm;
pub mod unwind;
