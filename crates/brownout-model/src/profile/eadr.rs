//! `eadr`: extended ADR. The contents of caches survive too. Non-temporal stores go through write-combining
//! buffers, whose contents are lost.

use super::{Profile, Wait};
use crate::address::LINE;

pub(super) const PROFILE: Profile = Profile {
    name: "eadr",
    summary: "caches are persistent: only non-temporal stores wait for a fence",
    cached: Wait::Nothing,
    non_temporal: Wait::Fence,
    unit: LINE,
};
