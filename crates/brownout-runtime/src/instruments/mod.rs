//! The instruments that observe the target, and the seam through which the translator calls them.
//!
//! An instrument implements [`Instrument`] in a file or folder of its own and has one line in [`registry`]. The
//! translator calls the functions that the registry generates, through [`crate::hooks`], and never names an
//! instrument. Calls are resolved at compile time: a hook that an instrument leaves at its default costs nothing.
//!
//! [`events`] and [`unwind`] are services for instruments that record events: sites, calling contexts and
//! the assembly that writes records.

pub mod baton;
pub mod calls;
pub mod coverage;
pub mod events;
pub mod explore;
pub mod fuzz;
pub mod hold;
mod instrument;
pub mod locks;
pub mod other_inputs;
pub mod patch;
pub mod path;
pub mod pm;
pub mod registry;
pub mod schedule;
pub mod unwind;

pub use instrument::{BranchRequest, Instrument, MisalignedLoad, Resumption};
pub use registry::*;
