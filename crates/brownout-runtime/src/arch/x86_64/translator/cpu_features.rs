//! What the runtime needs of the CPU beyond the baseline of x86-64.
//!
//! Instructions of the target are copied, so the target may use what its CPU has, and faults where the CPU lacks
//! something. The runtime itself uses the baseline, FSGSBASE for its context and XSAVE for signal frames; anything
//! newer only around instructions of the target that need at least as much.

use core::arch::x86_64::__cpuid;

/// Bit of `AT_HWCAP2`: the kernel has enabled FSGSBASE.
const HWCAP2_FSGSBASE: u64 = 1 << 1;
/// Bit of ecx in leaf 1: the kernel has enabled XSAVE, so the CPU has it.
const CPUID_OSXSAVE: u32 = 1 << 27;

/// The first feature that the runtime needs and that is not there. `hwcap2` is the value of `AT_HWCAP2`.
pub fn missing_feature(hwcap2: u64) -> Option<&'static str> {
    missing(hwcap2, __cpuid(1).ecx)
}

fn missing(hwcap2: u64, leaf_1_ecx: u32) -> Option<&'static str> {
    if hwcap2 & HWCAP2_FSGSBASE == 0 {
        Some("FSGSBASE")
    } else if leaf_1_ecx & CPUID_OSXSAVE == 0 {
        Some("XSAVE")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_feature_is_named() {
        assert_eq!(missing(0, CPUID_OSXSAVE), Some("FSGSBASE"));
        assert_eq!(missing(HWCAP2_FSGSBASE, 0), Some("XSAVE"));
        assert_eq!(missing(HWCAP2_FSGSBASE, CPUID_OSXSAVE), None);
    }
}
