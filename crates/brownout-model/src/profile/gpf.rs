//! `gpf`: global persistent flush of CXL. When power fails, every host writes its caches back to the
//! devices. A store is therefore guaranteed once it is in the cache, as with [`eadr`](super::eadr).
//!
//! Not modelled: a flush that fails itself, which the device reports as a dirty shutdown.

use super::{Profile, Wait};
use crate::address::LINE;

pub(super) const PROFILE: Profile = Profile {
    name: "gpf",
    summary: "the platform flushes caches to CXL memory when power fails: only non-temporal stores wait",
    cached: Wait::Nothing,
    non_temporal: Wait::Fence,
    unit: LINE,
};
