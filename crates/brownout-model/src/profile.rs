//! Persistency profiles: when a store is guaranteed to survive a crash on a kind of machine.
//!
//! To add a profile, add a file with a [`Profile`] to this folder and list it in [`Profile::ALL`].

mod adr;
mod eadr;
mod gpf;
mod msync;

use crate::address::LINE;
use crate::observer::StoreKind;

/// What a store needs before it is guaranteed to survive a crash. Writing back its page (`msync`, `fsync`)
/// always guarantees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: it is guaranteed at once.
    Nothing,
    /// The next fence of its own thread.
    Fence,
    /// A flush of its line, and the fence that the flush waits for.
    Flush,
    /// A write-back of its page.
    WriteBack,
}

/// A kind of persistent memory.
///
/// ```
/// use brownout_model::{Profile, StoreKind, Wait};
///
/// assert_eq!(Profile::named("msync"), Some(Profile::MSYNC));
/// assert_eq!(Profile::ADR.wait(StoreKind::Cached), Wait::Flush);
/// assert_eq!(Profile::EADR.wait(StoreKind::Cached), Wait::Nothing);
/// assert!(Profile::EADR.needs_fences() && !Profile::EADR.needs_flushes());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The name used on the command line.
    pub name: &'static str,
    /// A one-line description.
    pub summary: &'static str,
    /// What cached stores wait for.
    pub cached: Wait,
    /// What non-temporal stores wait for.
    pub non_temporal: Wait,
    /// The number of bytes that become persistent together: a crash leaves each aligned unit as it was
    /// after some prefix of its stores.
    pub unit: u64,
}

impl Profile {
    /// ADR: the memory controller is in the persistent domain, caches are not.
    pub const ADR: Profile = adr::PROFILE;
    /// eADR: caches are in the persistent domain.
    pub const EADR: Profile = eadr::PROFILE;
    /// Global persistent flush of CXL: the platform flushes caches when power fails.
    pub const GPF: Profile = gpf::PROFILE;
    /// A file on a disk that is made durable with `msync` or `fsync`.
    pub const MSYNC: Profile = msync::PROFILE;

    /// All profiles, the default first.
    pub const ALL: [Profile; 4] = [Self::ADR, Self::EADR, Self::GPF, Self::MSYNC];

    /// The profile with this name.
    pub fn named(name: &str) -> Option<Profile> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }

    /// What a store of this kind waits for.
    #[inline]
    pub fn wait(&self, kind: StoreKind) -> Wait {
        match kind {
            StoreKind::Cached => self.cached,
            StoreKind::NonTemporal => self.non_temporal,
        }
    }

    /// Whether flush instructions are needed to make stores persistent.
    pub fn needs_flushes(&self) -> bool {
        self.cached == Wait::Flush
    }

    /// Whether fences are needed to make stores persistent.
    pub fn needs_fences(&self) -> bool {
        self.needs_flushes() || self.non_temporal == Wait::Fence
    }

    /// The number of cache lines in a unit.
    pub fn lines_of_unit(&self) -> u64 {
        self.unit / LINE
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::ADR
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::PAGE;

    #[test]
    fn profiles_are_found_by_name() {
        for profile in Profile::ALL {
            assert_eq!(Profile::named(profile.name), Some(profile));
        }
        assert_eq!(Profile::named("pmem"), None);
        assert_eq!(Profile::default().name, "adr");
    }

    #[test]
    fn a_unit_is_at_least_a_line_and_at_most_a_page() {
        for profile in Profile::ALL {
            assert!(profile.unit.is_power_of_two());
            assert!(profile.unit >= LINE && profile.unit <= PAGE);
        }
    }
}
