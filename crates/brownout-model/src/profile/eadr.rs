//! `eadr`: extended ADR. Caches survive as well; write-combining buffers, through which
//! non-temporal stores go, do not.

use super::{Profile, Wait};
use crate::address::LINE;

pub(super) const PROFILE: Profile = Profile {
    name: "eadr",
    summary: "caches are persistent: only non-temporal stores wait for a fence",
    cached: Wait::Nothing,
    non_temporal: Wait::Fence,
    unit: LINE,
};
