//! The specification of the model: litmus tests that assert exact sets of crash states, and random programs
//! compared with a reference machine that was written from the architecture manuals alone.

mod crash_times;
mod exploring;
mod exploring_figures;
mod exploring_files;
mod exploring_random;
mod following;
mod litmus;
mod machine;
mod narrowing;
mod non_temporal;
mod ordering_table;
mod persist_order;
mod program;
mod published;
mod random;
mod streaming;
mod tearing;
mod view_based;
mod writing_back;
