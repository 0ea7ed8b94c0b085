//! Instructions in their calling contexts, by number.
//!
//! The same process, instruction and context get a new number when the process maps other code over the instruction.

use brownout_trace::{AppPc, ContextId, Definitions, Event, EventKind, ProcessId};
use rustc_hash::FxHashMap;

/// An instruction in its calling context, within one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RaceSite(pub u32);

/// What an access of a site is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessOwner {
    /// The user's code, or a library on its behalf.
    User,
    /// A persistence library works on its own data by its own protocol.
    Library,
    /// A library works on a lock.
    Lock,
}

/// What a site is in a run in which threads are held, to force a race.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForcedRoles {
    /// The store whose thread is held.
    pub store: bool,
    /// A load that can race with it.
    pub load: bool,
}

/// Knows the code of the target.
pub trait TargetCode {
    /// Whose access `event` is, at the first event of a site. `definitions` are those at the event: the meaning of an address can
    /// change later.
    fn owner(
        &mut self,
        site: RaceSite,
        event: &Event<'_>,
        definitions: &Definitions,
    ) -> AccessOwner;

    /// What a site is, if a race is forced.
    fn forced_roles(&self, _site: RaceSite) -> ForcedRoles {
        ForcedRoles::default()
    }
}

impl<F: FnMut(RaceSite, &Event<'_>) -> AccessOwner> TargetCode for F {
    fn owner(&mut self, site: RaceSite, event: &Event<'_>, _: &Definitions) -> AccessOwner {
        self(site, event)
    }
}

type CodePosition = (ProcessId, AppPc, ContextId);

/// The numbers of sites.
pub(crate) struct Sites<C> {
    numbers: FxHashMap<CodePosition, RaceSite>,
    owners: Vec<AccessOwner>,
    code: C,
    recent: Option<(CodePosition, RaceSite)>,
}

impl<C: TargetCode> Sites<C> {
    pub(crate) fn new(code: C) -> Self {
        Sites {
            numbers: FxHashMap::default(),
            owners: Vec::new(),
            code,
            recent: None,
        }
    }

    pub(crate) fn into_code(self) -> C {
        self.code
    }

    #[inline]
    pub(crate) fn owner(&self, site: RaceSite) -> AccessOwner {
        self.owners[site.0 as usize]
    }

    #[inline]
    pub(crate) fn forced_roles(&self, site: RaceSite) -> ForcedRoles {
        self.code.forced_roles(site)
    }

    /// The site of an event.
    pub(crate) fn of(&mut self, event: &Event<'_>, definitions: &Definitions) -> RaceSite {
        let place = (event.process, event.pc, event.context);
        if let Some((recent, site)) = self.recent
            && recent == place
        {
            return site;
        }
        let site = match self.numbers.get(&place) {
            Some(&site) => site,
            None => {
                let site = RaceSite(self.owners.len() as u32);
                self.owners.push(self.code.owner(site, event, definitions));
                self.numbers.insert(place, site);
                site
            }
        };
        self.recent = Some((place, site));
        site
    }

    /// Forgets the sites of a process when code is mapped over other code.
    pub(crate) fn module_mapped(&mut self, event: &Event<'_>, definitions: &Definitions) {
        let EventKind::Module { addr, len, .. } = event.kind else {
            return;
        };
        let end = addr.0.saturating_add(len);
        let process = definitions.process(event.process).into_iter();
        let mut earlier = process.flat_map(|process| process.modules().rev().skip(1));
        let overlaps = earlier
            .any(|module| module.addr.0 < end && addr.0 < module.addr.0.saturating_add(module.len));
        if overlaps {
            let gone = event.process;
            self.numbers.retain(|&(process, ..), _| process != gone);
            self.recent = None;
        }
    }
}
