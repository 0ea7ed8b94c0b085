//! `msync`: a file on an ordinary disk, mapped, and made durable by `msync(MS_SYNC)`, `fsync` or `fdatasync`.
//!
//! The kernel may write any page back at any time, and a disk writes whole sectors of 512 bytes.
//! Instructions that flush and fence concern memory, not the disk: they guarantee nothing.

use super::{Profile, Wait};

pub(super) const PROFILE: Profile = Profile {
    name: "msync",
    summary: "a file on a disk: pages are durable once written back by msync or fsync",
    cached: Wait::WriteBack,
    non_temporal: Wait::WriteBack,
    unit: 512,
};
