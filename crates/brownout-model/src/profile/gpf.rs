//! `gpf`: global persistent flush of CXL. When power fails, every host writes its caches back to the
//! devices, so that a store is safe once it is in the cache, as with [`eadr`](super::eadr).
//!
//! A flush that itself fails is reported by the device (dirty shutdown) and is not modelled.

use super::{Profile, Wait};
use crate::address::LINE;

pub(super) const PROFILE: Profile = Profile {
    name: "gpf",
    summary: "the platform flushes caches to CXL memory when power fails: only non-temporal stores wait",
    cached: Wait::Nothing,
    non_temporal: Wait::Fence,
    unit: LINE,
};
