//! The trace from outside: what is written, what is read back, and what becomes of damaged files.

mod arbitrary;
mod damage;
mod fuzzing;
mod old_versions;
mod replaying;
mod round_trip;
mod traces;
mod writing;
