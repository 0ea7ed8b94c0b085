//! Where the storing thread is held, so that the reader can get at the store: after the store, before it is durable, and where the
//! thread holds no lock that the reader needs.

use std::collections::HashMap;
use std::ops::ControlFlow;

use brownout_engine::CodeLocation;
use brownout_race::{CustomLock, LockName, RacyAccess, RacyEnd, RawRace};
use brownout_report::FindingId;
use brownout_trace::{Address, Definitions, Event, EventKind, LockMode, ProcessId, ThreadId};

use super::code_stack::{code_location, code_stack};
use crate::console::Console;
use crate::failure::Failure;
use crate::race_run::RaceRun;
use crate::settings::Settings;
use crate::trace_file::TraceFile;

/// Events of the storing thread that are looked at to find where it can be held.
const MOST_EVENTS: usize = 10_000;

/// How one race is forced.
pub struct Hold {
    /// The store with its calling context.
    pub store: Vec<CodeLocation>,
    /// The instruction before which its thread is held; `None` if it need not be held.
    pub wait: Option<CodeLocation>,
    /// The instructions that can load it.
    pub loads: Vec<CodeLocation>,
}

/// The finding of each race, and how it is forced, or why it cannot be.
pub type ChosenHolds = Vec<(FindingId, Result<Hold, String>)>;

/// When the thread of a store can be held.
enum WaitAt {
    /// Before this event of it.
    Event(u64),
    /// Before its next event.
    NextEvent,
    /// Once it has released these locks.
    Released(Vec<LockName>),
    Found(CodeLocation),
}

struct Search<'r> {
    race: &'r RawRace,
    store: Vec<CodeLocation>,
    loads: Vec<CodeLocation>,
    wait: WaitAt,
    events: usize,
}

/// Reads the trace for where the sites of races are.
pub fn choose_holds(
    trace: &mut TraceFile,
    run: &RaceRun,
    settings: &Settings,
    console: &Console,
) -> Result<ChosenHolds, Failure> {
    let mut searches: Vec<Search<'_>> = run
        .races
        .iter()
        .map(|(_, race)| Search::new(race))
        .collect();
    let mut by_event: HashMap<u64, Vec<usize>> = HashMap::new();
    for (number, search) in searches.iter().enumerate() {
        let loads = search.race.loads.iter().map(|load| load.load.time.0);
        for time in loads.chain([search.race.store.time.0]) {
            by_event.entry(time).or_default().push(number);
        }
    }
    trace.rewind()?;
    let mut progress = console.progress("choosing where to hold threads", Some(trace.events()));
    let mut waiting: HashMap<(ProcessId, ThreadId), Vec<usize>> = HashMap::new();
    trace.walk(&mut progress, |event, definitions| {
        let thread = (event.process, event.thread);
        if let Some(numbers) = waiting.get_mut(&thread) {
            numbers.retain(|&number| searches[number].goes_on(event, definitions, &settings.locks));
            if numbers.is_empty() {
                waiting.remove(&thread);
            }
        }
        for &number in by_event.get(&event.index.0).into_iter().flatten() {
            if searches[number].is_reached(event, definitions) {
                waiting.entry(thread).or_default().push(number);
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    trace.rewind()?;
    let ids = run.races.iter().map(|(id, _)| id.clone());
    Ok(ids.zip(searches.into_iter().map(Search::hold)).collect())
}

impl<'r> Search<'r> {
    fn new(race: &'r RawRace) -> Self {
        let load = &race.first_load().load;
        let own_end = match &race.end {
            RacyEnd::Persisted(end) | RacyEnd::Overwritten(end) => {
                Some(end).filter(|end| is_same_thread(end, &race.store))
            }
            RacyEnd::Never => None,
        };
        let wait = match own_end {
            Some(end) if common_locks(load, end).is_empty() => WaitAt::Event(end.time.0),
            _ => match common_locks(load, &race.store) {
                none if none.is_empty() => WaitAt::NextEvent,
                held => WaitAt::Released(held),
            },
        };
        Self {
            race,
            store: Vec::new(),
            loads: Vec::new(),
            wait,
            events: 0,
        }
    }

    /// An event of the race. Returns whether the thread is followed from now on.
    fn is_reached(&mut self, event: &Event<'_>, definitions: &Definitions) -> bool {
        if event.index.0 == self.race.store.time.0 {
            self.store = code_stack(event, definitions);
            return true;
        }
        let load = code_location(event.process, event.pc, definitions);
        if let Some(load) = load.filter(|load| !self.loads.contains(load)) {
            self.loads.push(load);
        }
        false
    }

    /// The storing thread has another event. Returns whether it has to be followed further.
    fn goes_on(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        own_locks: &[CustomLock],
    ) -> bool {
        self.events += 1;
        let here = || code_location(event.process, event.pc, definitions);
        let found = match &mut self.wait {
            WaitAt::Event(time) if *time == event.index.0 => here(),
            WaitAt::NextEvent => here(),
            WaitAt::Released(locks) => {
                let released = released_lock(event, definitions, own_locks);
                locks.retain(|lock| Some(*lock) != released);
                if locks.is_empty() {
                    // Of a call, the next event is its return.
                    self.wait = WaitAt::NextEvent;
                }
                None
            }
            _ => None,
        };
        if let Some(found) = found {
            self.wait = WaitAt::Found(found);
            return false;
        }
        self.events < MOST_EVENTS
    }

    fn hold(self) -> Result<Hold, String> {
        if self.store.is_empty() {
            return Err("the store is in code that belongs to no file".to_owned());
        }
        if self.loads.is_empty() {
            return Err("the loads are in code that belongs to no file".to_owned());
        }
        let wait = match self.wait {
            WaitAt::Found(wait) => Some(wait),
            WaitAt::Released(_) => {
                return Err(
                    "the storing thread was not seen to release the lock that the reader needs"
                        .to_owned(),
                );
            }
            // It has no later event.
            WaitAt::Event(_) | WaitAt::NextEvent => None,
        };
        Ok(Hold {
            store: self.store,
            wait,
            loads: self.loads,
        })
    }
}

fn is_same_thread(one: &RacyAccess, other: &RacyAccess) -> bool {
    (one.process, one.thread) == (other.process, other.thread)
}

/// The locks that keep two accesses apart.
fn common_locks(one: &RacyAccess, other: &RacyAccess) -> Vec<LockName> {
    let excludes =
        |one: LockMode, other: LockMode| one == LockMode::Exclusive || other == LockMode::Exclusive;
    let of_one = one.locks.iter();
    let common = of_one.filter(|(name, mode, _)| {
        let mut of_other = other.locks.iter();
        of_other.any(|(known, held, _)| known == name && excludes(*mode, *held))
    });
    common.map(|&(name, ..)| name).collect()
}

/// The lock that a thread releases with an event.
fn released_lock(
    event: &Event<'_>,
    definitions: &Definitions,
    own_locks: &[CustomLock],
) -> Option<LockName> {
    let addr = match event.kind {
        EventKind::LockRelease { word, .. } => word,
        EventKind::Call { function, args } => {
            let name = definitions.function(function)?;
            let argument = brownout_race::released_argument(name, own_locks)?;
            Address(args.get(argument))
        }
        _ => return None,
    };
    let space = definitions.process(event.process)?.address_space();
    Some(match space.resolve(addr, 1) {
        Some(range) => LockName::InFile {
            file: range.file,
            offset: range.offset,
        },
        None => LockName::InMemory {
            process: event.process,
            addr,
        },
    })
}
