//! `adr`: asynchronous DRAM refresh, the guarantee of Optane and NVDIMM platforms. Data that has reached the memory
//! controller survives a power failure; the contents of caches and write-combining buffers are lost.

use super::{Profile, Wait};
use crate::address::LINE;

pub(super) const PROFILE: Profile = Profile {
    name: "adr",
    summary: "the memory controller is persistent, caches are not: flush and fence",
    cached: Wait::Flush,
    non_temporal: Wait::Fence,
    unit: LINE,
};
