//! `msync`: a mapped file on a disk, made durable with `msync(MS_SYNC)`, `fsync` or `fdatasync`.
//!
//! The kernel may write back any page at any time, and a disk writes whole sectors of 512 bytes. Flush and fence
//! instructions do not affect the disk: they guarantee nothing.

use super::{Profile, Wait};

pub(super) const PROFILE: Profile = Profile {
    name: "msync",
    summary: "a file on a disk: pages are durable once written back by msync or fsync",
    cached: Wait::WriteBack,
    non_temporal: Wait::WriteBack,
    unit: 512,
};
