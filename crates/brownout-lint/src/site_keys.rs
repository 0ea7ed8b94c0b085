//! Keys of sites in their calling contexts. A [`SiteInContext`] is a process, an instruction and a calling context.
//!
//! The same triple gets a new key when the process maps other code over the instruction: from then on the
//! address means something else.

use brownout_trace::{AppPc, ContextId, Definitions, Event, EventKind, ProcessId};
use rustc_hash::FxHashMap;

use crate::attribution::{Attribution, Origin};
use crate::follower::store_marks::StoreMarks;
use crate::oracle::OracleFrame;

/// Identifies a site in its calling context within one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteKey(u32);

impl SiteKey {
    /// No site.
    pub(crate) const NONE: SiteKey = SiteKey(u32::MAX);

    #[cfg(test)]
    pub(crate) fn numbered(number: u32) -> SiteKey {
        SiteKey(number)
    }

    /// Keys are small: tables can be indexed by them.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SiteInContext {
    pub(crate) process: ProcessId,
    pub(crate) pc: AppPc,
    pub(crate) context: ContextId,
}

impl SiteInContext {
    fn of(event: &Event<'_>) -> Self {
        SiteInContext {
            process: event.process,
            pc: event.pc,
            context: event.context,
        }
    }

    #[inline]
    fn hash(self) -> usize {
        const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
        let context = u64::from(self.context.0) << 32 | u64::from(self.process.0);
        let mixed = (self.pc.0 ^ context.wrapping_mul(MIX)).wrapping_mul(MIX);
        (mixed >> (64 - RECENT_BITS)) as usize
    }
}

const RECENT_BITS: u32 = 14;

/// Finds the keys of sites.
pub(crate) struct SiteKeys<A> {
    attribution: A,
    keys: FxHashMap<SiteInContext, SiteKey>,
    /// By the hash of the site, the key of the last one that was looked up. Without the sites themselves the table stays in the
    /// processor's cache.
    recent: Vec<SiteKey>,
}

/// What is known of sites, by key.
#[derive(Default)]
pub(crate) struct KnownSites {
    sites: Vec<SiteInContext>,
    facts: Vec<SiteFacts>,
}

/// What is needed of a site for most of its events, as small as it can be.
#[derive(Clone, Copy)]
struct SiteFacts {
    origin: Origin,
    /// It stores numbers that are no [offsets](crate::follower::offsets).
    stores_other_numbers: bool,
}

/// A site with what is needed of it for most of its events.
#[derive(Clone, Copy)]
pub(crate) struct ActingSite {
    pub(crate) key: SiteKey,
    pub(crate) origin: Origin,
    /// The marks of all its stores.
    pub(crate) marks: StoreMarks,
    /// It is known to store numbers that are no [offsets](crate::follower::offsets).
    pub(crate) stores_other_numbers: bool,
}

impl ActingSite {
    /// No site.
    pub(crate) const NONE: ActingSite = ActingSite {
        key: SiteKey::NONE,
        origin: Origin::User,
        marks: StoreMarks::NONE,
        stores_other_numbers: false,
    };

    /// Whether findings may name the site.
    #[inline]
    pub(crate) fn is_users(self) -> bool {
        is_users(self.origin)
    }
}

/// The marks of all stores by code of this origin.
fn store_marks(origin: Origin) -> StoreMarks {
    if !is_users(origin) {
        StoreMarks::LIBRARY
    } else if copies(origin) {
        StoreMarks::COPY
    } else {
        StoreMarks::NONE
    }
}

/// Whether code of this origin copies for its callers.
#[inline]
fn copies(origin: Origin) -> bool {
    matches!(
        origin,
        Origin::CLibrary | Origin::Carrier | Origin::ThreadRuntime
    )
}

/// Whether findings may name code of this origin.
#[inline]
pub(crate) fn is_users(origin: Origin) -> bool {
    !matches!(origin, Origin::Library | Origin::Bindings | Origin::Lock)
}

impl KnownSites {
    #[inline]
    pub(crate) fn origin(&self, key: SiteKey) -> Origin {
        self.facts[key.index()].origin
    }

    /// A site that has a key, or [`ActingSite::NONE`].
    #[inline]
    pub(crate) fn acting(&self, key: SiteKey) -> ActingSite {
        match self.facts.get(key.index()) {
            Some(facts) => ActingSite {
                key,
                origin: facts.origin,
                marks: store_marks(facts.origin),
                stores_other_numbers: facts.stores_other_numbers,
            },
            None => ActingSite::NONE,
        }
    }

    pub(crate) fn stores_other_numbers(&self, key: SiteKey) -> bool {
        self.facts[key.index()].stores_other_numbers
    }

    /// The site stores numbers that are no offsets.
    pub(crate) fn refute_offsets(&mut self, key: SiteKey) {
        self.facts[key.index()].stores_other_numbers = true;
    }

    /// The keys of the sites that store numbers which are no offsets.
    pub(crate) fn storing_other_numbers(&self) -> impl Iterator<Item = SiteKey> {
        let facts = (0..).map(SiteKey).zip(&self.facts);
        let others = facts.filter(|(_, facts)| facts.stores_other_numbers);
        others.map(|(key, _)| key)
    }

    /// Whether findings may name the site.
    #[inline]
    pub(crate) fn is_users(&self, key: SiteKey) -> bool {
        is_users(self.origin(key))
    }

    pub(crate) fn site(&self, key: SiteKey) -> SiteInContext {
        self.sites[key.index()]
    }

    /// Whether two stores were made by one call of one copying function.
    #[inline]
    pub(crate) fn is_one_copy(&self, one: SiteKey, other: SiteKey) -> bool {
        copies(self.origin(one)) && copies(self.origin(other)) && self.have_one_caller(one, other)
    }

    /// Whether two sites are in one function that was called from one site.
    pub(crate) fn have_one_caller(&self, one: SiteKey, other: SiteKey) -> bool {
        let (one, other) = (self.site(one), self.site(other));
        one.process == other.process && one.context == other.context
    }
}

impl<A: Attribution> SiteKeys<A> {
    pub(crate) fn new(attribution: A) -> Self {
        SiteKeys {
            attribution,
            keys: FxHashMap::default(),
            recent: vec![SiteKey::NONE; 1 << RECENT_BITS],
        }
    }

    /// The calls that led to a site, innermost first.
    pub(crate) fn stack(&mut self, key: SiteKey) -> Vec<OracleFrame> {
        self.attribution.stack(key)
    }

    pub(crate) fn into_attribution(self) -> A {
        self.attribution
    }

    /// The key of the site of an event.
    #[inline]
    pub(crate) fn of(
        &mut self,
        known: &mut KnownSites,
        event: &Event<'_>,
        definitions: &Definitions,
    ) -> SiteKey {
        let site = SiteInContext::of(event);
        match self.recent(known, site) {
            Some(key) => key,
            None => self.look_up(known, site, event, definitions),
        }
    }

    /// The key of a site, or [`SiteKey::NONE`] if it has none yet.
    pub(crate) fn find(&self, known: &KnownSites, site: SiteInContext) -> SiteKey {
        let key = self.recent(known, site);
        let key = key.or_else(|| self.keys.get(&site).copied());
        key.unwrap_or(SiteKey::NONE)
    }

    /// The key of a site that was looked up recently.
    #[inline]
    fn recent(&self, known: &KnownSites, site: SiteInContext) -> Option<SiteKey> {
        let key = self.recent[site.hash()];
        (known.sites.get(key.index()) == Some(&site)).then_some(key)
    }

    #[inline(never)]
    fn look_up(
        &mut self,
        known: &mut KnownSites,
        site: SiteInContext,
        event: &Event<'_>,
        definitions: &Definitions,
    ) -> SiteKey {
        let key = match self.keys.get(&site) {
            Some(&key) => key,
            None => {
                let key = SiteKey(known.sites.len() as u32);
                known.sites.push(site);
                let origin = self.attribution.origin(key, event, definitions);
                known.facts.push(SiteFacts {
                    origin,
                    stores_other_numbers: false,
                });
                self.keys.insert(site, key);
                key
            }
        };
        self.recent[site.hash()] = key;
        key
    }

    /// Forgets the keys of a process when code is mapped over other code.
    pub(crate) fn module_mapped(&mut self, event: &Event<'_>, definitions: &Definitions) {
        let EventKind::Module { addr, len, .. } = event.kind else {
            return;
        };
        let end = addr.0.saturating_add(len);
        let modules = definitions.process(event.process);
        let earlier = modules
            .into_iter()
            .flat_map(|process| process.modules().rev().skip(1));
        let mut overlaps = earlier.filter(|module| {
            module.addr.0 < end && addr.0 < module.addr.0.saturating_add(module.len)
        });
        if overlaps.next().is_some() {
            self.keys.retain(|site, _| site.process != event.process);
            self.recent.fill(SiteKey::NONE);
        }
    }
}
