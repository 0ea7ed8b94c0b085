//! Persistency profiles: when a store is guaranteed, on which kind of machine.
//!
//! A profile is a file below this one that holds a [`Profile`], named in [`Profile::ALL`].

mod adr;
mod eadr;
mod gpf;
mod msync;

use crate::address::LINE;
use crate::tracker::StoreKind;

/// What a store waits for before it is guaranteed to survive a crash. Writing back its page
/// (`msync`, `fsync`) ends every wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing.
    Nothing,
    /// The next fence of its own thread.
    Fence,
    /// A flush of its line, and the fence that the flush waits for.
    Flush,
    /// Writing back of its page.
    WriteBack,
}

/// A kind of persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// As given on the command line.
    pub name: &'static str,
    /// Where the border of persistence is.
    pub summary: &'static str,
    /// Stores through the cache.
    pub cached: Wait,
    /// Stores past the cache.
    pub non_temporal: Wait,
    /// Bytes that reach persistence together: a crash leaves each aligned unit as it was after some
    /// prefix of its stores.
    pub unit: u64,
}

impl Profile {
    pub const ADR: Profile = adr::PROFILE;
    pub const EADR: Profile = eadr::PROFILE;
    pub const GPF: Profile = gpf::PROFILE;
    pub const MSYNC: Profile = msync::PROFILE;

    /// All profiles, the default first.
    pub const ALL: [Profile; 4] = [Self::ADR, Self::EADR, Self::GPF, Self::MSYNC];

    pub fn named(name: &str) -> Option<Profile> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }

    /// What a store of that kind waits for.
    #[inline]
    pub fn wait(&self, kind: StoreKind) -> Wait {
        match kind {
            StoreKind::Cached => self.cached,
            StoreKind::NonTemporal => self.non_temporal,
        }
    }

    /// Flush instructions take part in making stores persistent.
    pub fn needs_flushes(&self) -> bool {
        self.cached == Wait::Flush
    }

    /// Fences take part in making stores persistent.
    pub fn needs_fences(&self) -> bool {
        self.needs_flushes() || self.non_temporal == Wait::Fence
    }

    /// Cache lines of a unit.
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
    fn units_are_made_of_lines_and_lie_in_pages() {
        for profile in Profile::ALL {
            assert!(profile.unit.is_power_of_two());
            assert!(profile.unit >= LINE && profile.unit <= PAGE);
        }
    }
}
