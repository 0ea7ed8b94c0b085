//! The stores of a run to persistent files: when each was issued and guaranteed, what it changed, and where it is in the code. Also
//! the failure points of the run.

use std::ops::ControlFlow;
use std::path::PathBuf;

use brownout_libraries::is_library_module;
use brownout_model::{Access, PersistOrder, PersistOrderBuilder, Profile, StoreNumber, Time};
use brownout_trace::{AppPc, Definitions, Event, EventKind, FileId};
use rustc_hash::FxHashMap;

use crate::effect::{Effect, Threads, effects};
use crate::error::CrashError;
use crate::failure_point::{FailurePoint, FailurePoints, Scope, StackId};
use crate::progress::{ProgressObserver, must_stop};
use crate::recorded_run::RecordedRun;
use crate::symbols::Symbols;

/// Callers that distinguish the sites of structural types: a function that stores for its callers updates a field for each of them.
const CALLERS: usize = 2;

/// The number of a site of stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SiteNumber(pub(crate) u32);

/// What a store changed, and where it is in the code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredBytes {
    pub(crate) file: FileId,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    /// Whether it persists as a whole, however long it is.
    pub(crate) is_locked: bool,
    pub(crate) site: SiteNumber,
}

/// A calling context that stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreSite {
    pub(crate) stack: Option<StackId>,
    /// Equal for sites that store on behalf of the same code.
    pub(crate) caller: u32,
}

/// The stores of a run.
#[derive(Debug, Default)]
pub(crate) struct RunStores {
    pub(crate) order: PersistOrder,
    stored: Vec<StoredBytes>,
    sites: Vec<StoreSite>,
    /// The failure points that are wanted, in the order of the run.
    pub(crate) points: Vec<FailurePoint>,
    /// Where the target was started.
    pub(super) directory: PathBuf,
}

impl RunStores {
    /// Reads a run, as far as the observer allows.
    pub(crate) fn read(
        run: &RecordedRun,
        scope: &Scope,
        profile: Profile,
        symbols: &mut dyn Symbols,
        observer: &mut dyn ProgressObserver,
    ) -> Result<Self, CrashError> {
        let mut follower = Follower {
            order: PersistOrderBuilder::new(profile),
            threads: Threads::default(),
            sites: FxHashMap::default(),
            callers: FxHashMap::default(),
            found: Self::default(),
        };
        let mut points = FailurePoints::new(scope.clone());
        let reader = run.walk(|event, definitions| {
            observer.reading(event.index);
            if must_stop(event.index, observer) {
                return ControlFlow::Break(());
            }
            symbols.observe(event, definitions);
            let point = points.observe(event, definitions, &run.selection, &mut *symbols);
            follower.found.points.extend(point);
            effects(event, definitions, &run.selection, &profile, |effect| {
                follower.apply(event, definitions, effect, symbols);
            });
            ControlFlow::Continue(())
        })?;
        Ok(Self {
            order: follower.order.finish(),
            directory: reader.header().cwd.clone(),
            ..follower.found
        })
    }

    pub(crate) fn stored(&self, store: StoreNumber) -> &StoredBytes {
        &self.stored[store.index()]
    }

    pub(crate) fn site(&self, site: SiteNumber) -> &StoreSite {
        &self.sites[site.0 as usize]
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = StoreNumber> + use<> {
        (0..self.stored.len() as u32).map(StoreNumber)
    }

    #[cfg(test)]
    pub(crate) fn of_test(
        order: PersistOrder,
        stored: Vec<StoredBytes>,
        sites: Vec<StoreSite>,
    ) -> Self {
        Self {
            order,
            stored,
            sites,
            points: Vec::new(),
            directory: PathBuf::new(),
        }
    }
}

struct Follower {
    order: PersistOrderBuilder,
    threads: Threads,
    sites: FxHashMap<Option<StackId>, SiteNumber>,
    callers: FxHashMap<Vec<AppPc>, u32>,
    found: RunStores,
}

impl Follower {
    fn apply(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        effect: Effect<'_>,
        symbols: &mut dyn Symbols,
    ) {
        let order = &mut self.order;
        let by = Access {
            thread: self.threads.of(event, || order.add_thread()),
            time: Time(event.index.0),
        };
        match effect {
            Effect::Fence => order.fence(by),
            Effect::Flush { at, effect } => order.flush(by, at, effect),
            Effect::WriteBack { space, range } => order.write_back(by, space, range),
            Effect::Remove { space, range } => order.discard(by, space, range),
            Effect::Replace { at, bytes } => {
                let end = at.offset.saturating_add(bytes.len() as u64);
                order.discard(by, at.space, at.offset..end);
            }
            Effect::Store { at, bytes, kind } => {
                let number = order.store(by, at, bytes.len() as u64, kind);
                // What an instruction stores to a second mapping counts for the first.
                if number.index() == self.found.stored.len() {
                    let stack = symbols.stack(event, definitions);
                    let site = self.site(stack, event, definitions);
                    self.found.stored.push(StoredBytes {
                        file: FileId(at.space.0),
                        offset: at.offset,
                        len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
                        is_locked: matches!(event.kind, EventKind::Store { locked: true, .. }),
                        site,
                    });
                }
            }
        }
    }

    fn site(
        &mut self,
        stack: Option<StackId>,
        event: &Event<'_>,
        definitions: &Definitions,
    ) -> SiteNumber {
        let Self {
            sites,
            callers,
            found,
            ..
        } = self;
        *sites.entry(stack).or_insert_with(|| {
            let next = callers.len() as u32;
            let caller = callers.entry(code_of(event, definitions));
            found.sites.push(StoreSite {
                stack,
                caller: *caller.or_insert(next),
            });
            SiteNumber(found.sites.len() as u32 - 1)
        })
    }
}

/// The code on whose behalf a store is made: the instruction, or the innermost call outside of libraries, and its callers.
fn code_of(event: &Event<'_>, definitions: &Definitions) -> Vec<AppPc> {
    let is_library = |pc: &AppPc| {
        let module = definitions.module_at(event.process, *pc);
        let name = module.and_then(|module| module.path.file_name());
        name.is_some_and(|name| is_library_module(&name.to_string_lossy()))
    };
    let frames = definitions.context_frames(event.process, event.context);
    let all: Vec<AppPc> = std::iter::once(event.pc).chain(frames).collect();
    let inner = all.iter().position(|pc| !is_library(pc)).unwrap_or(0);
    all[inner..].iter().copied().take(1 + CALLERS).collect()
}
