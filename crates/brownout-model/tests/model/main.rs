//! The model's specification: litmus tests that assert exact sets of crash states, and random programs
//! compared with a machine that was written from the prose of the architecture alone.

mod following;
mod litmus;
mod machine;
mod narrowing;
mod non_temporal;
mod ordering_table;
mod program;
mod published;
mod random;
mod streaming;
mod tearing;
mod view_based;
mod writing_back;
