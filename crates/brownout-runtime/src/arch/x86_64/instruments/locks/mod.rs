//! Locked instructions: what they do to their word, and how that is noted.

pub mod code;
pub mod form;
pub mod note;
