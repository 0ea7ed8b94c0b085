//! Crash testing on recorded traces: where a crash could come, what it would leave, and what the program's own
//! recovery makes of that.
//!
//! Implements Mumak §4.1 on traces: the target is never run again.

pub mod recovery;
