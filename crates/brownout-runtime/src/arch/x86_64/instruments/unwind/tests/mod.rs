//! The unwinder against real programs, hostile tables and the clock.

mod hostile;
mod mappings;
mod own;
mod programs;

mod traced_target;
