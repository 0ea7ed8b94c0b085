//! Tests of the public interface: what is written is read back, and damage is detected.

mod arbitrary;
mod damage;
mod fuzzing;
mod old_versions;
mod replaying;
mod round_trip;
mod traces;
mod writing;
