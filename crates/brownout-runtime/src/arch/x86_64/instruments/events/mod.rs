//! The assembly that records events.

pub mod fast_path;

pub use fast_path::{misaligned_load, recovery_point};
pub(crate) use fast_path::{restore, site_in_rdx, spill};
