//! Places in the program, numbered. A place is a process, an instruction and a calling context.

use brownout_trace::{AppPc, ContextId, Definitions, Event, EventKind, ProcessId};
use rustc_hash::FxHashMap;

use crate::attribution::{Attribution, Origin};
use crate::oracle::Frame;

/// Number of a place, in the order in which places were met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SiteId(u32);

impl SiteId {
    /// No place.
    pub(crate) const NONE: SiteId = SiteId(u32::MAX);

    #[cfg(test)]
    pub(crate) fn numbered(number: u32) -> SiteId {
        SiteId(number)
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Site {
    pub(crate) process: ProcessId,
    pub(crate) pc: AppPc,
    pub(crate) context: ContextId,
}

impl Site {
    fn of(event: &Event<'_>) -> Self {
        Site {
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

/// Finds the numbers of places.
pub(crate) struct Sites<A> {
    attribution: A,
    numbers: FxHashMap<Site, SiteId>,
    /// By the places' hash, the one met last.
    recent: Vec<(Site, SiteId)>,
}

/// What is known of places, by their numbers.
#[derive(Default)]
pub(crate) struct Known {
    sites: Vec<Site>,
    origins: Vec<Origin>,
}

impl Known {
    #[inline]
    pub(crate) fn origin(&self, site: SiteId) -> Origin {
        self.origins[site.index()]
    }

    /// Whether findings may name the place.
    #[inline]
    pub(crate) fn is_users(&self, site: SiteId) -> bool {
        !matches!(
            self.origin(site),
            Origin::Library | Origin::Bindings | Origin::Lock
        )
    }

    pub(crate) fn site(&self, site: SiteId) -> Site {
        self.sites[site.index()]
    }

    /// Whether two stores were made by one call of one copying function.
    #[inline]
    pub(crate) fn is_one_copy(&self, one: SiteId, other: SiteId) -> bool {
        let copies = |site| matches!(self.origin(site), Origin::CLibrary | Origin::Carrier);
        if !copies(one) || !copies(other) {
            return false;
        }
        self.have_one_caller(one, other)
    }

    /// Whether two places are in one function that was called from one place.
    pub(crate) fn have_one_caller(&self, one: SiteId, other: SiteId) -> bool {
        let (one, other) = (self.site(one), self.site(other));
        one.process == other.process && one.context == other.context
    }
}

impl<A: Attribution> Sites<A> {
    pub(crate) fn new(attribution: A) -> Self {
        let nowhere = Site {
            process: ProcessId(u32::MAX),
            pc: AppPc(0),
            context: ContextId::ROOT,
        };
        Sites {
            attribution,
            numbers: FxHashMap::default(),
            recent: vec![(nowhere, SiteId::NONE); 1 << RECENT_BITS],
        }
    }

    /// The calls that led to a place, innermost first.
    pub(crate) fn stack(&mut self, site: SiteId) -> Vec<Frame> {
        self.attribution.stack(site.index())
    }

    pub(crate) fn into_attribution(self) -> A {
        self.attribution
    }

    /// The place of an event.
    #[inline]
    pub(crate) fn of(
        &mut self,
        known: &mut Known,
        event: &Event<'_>,
        definitions: &Definitions,
    ) -> SiteId {
        let site = Site::of(event);
        let (recent, number) = self.recent[site.hash()];
        if recent == site {
            number
        } else {
            self.look_up(known, site, event, definitions)
        }
    }

    /// The number of a place, if it was met before.
    pub(crate) fn number(&self, site: Site) -> SiteId {
        let (recent, number) = self.recent[site.hash()];
        if recent == site {
            return number;
        }
        self.numbers.get(&site).copied().unwrap_or(SiteId::NONE)
    }

    #[inline(never)]
    fn look_up(
        &mut self,
        known: &mut Known,
        site: Site,
        event: &Event<'_>,
        definitions: &Definitions,
    ) -> SiteId {
        let number = match self.numbers.get(&site) {
            Some(&number) => number,
            None => {
                let number = SiteId(known.sites.len() as u32);
                known.sites.push(site);
                let origin = self.attribution.origin(event, definitions);
                known.origins.push(origin);
                self.numbers.insert(site, number);
                number
            }
        };
        self.recent[site.hash()] = (site, number);
        number
    }

    /// Takes notice of code that is mapped. Where it replaces other code, addresses begin to mean
    /// something else.
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
            self.numbers.retain(|site, _| site.process != event.process);
            for (site, _) in &mut self.recent {
                if site.process == event.process {
                    site.process = ProcessId(u32::MAX);
                }
            }
        }
    }
}
