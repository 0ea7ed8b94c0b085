//! A race as a finding: what happened, where, with which locks, and what it did harm to.

use brownout_race::{
    Dependence, Harm, LockName, LockSource, PERSISTENCY_RACE, RaceSite, RacyAccess, RacyEnd,
    RawRace,
};
use brownout_report::{ByteRange, Evidence, Finding, Frame, Severity, Stack, role};
use brownout_trace::{Definitions, FileId, LockMode};

use crate::quantity::number_of;

/// Loads whose stacks are kept.
const LOADS_KEPT: usize = 8;

/// What is needed to describe a race.
pub struct RaceContext<'a> {
    pub definitions: &'a Definitions,
    pub frames: &'a mut dyn FnMut(RaceSite) -> Vec<Frame>,
}

impl RaceContext<'_> {
    fn path(&self, file: FileId) -> String {
        let file = self.definitions.file(file);
        let path = file.map(|file| file.path.to_string_lossy().into_owned());
        path.unwrap_or_default()
    }

    fn stack(&mut self, role: &str, site: RaceSite) -> Stack {
        Stack {
            role: role.to_owned(),
            frames: (self.frames)(site),
        }
    }

    /// The locks that a thread held, in words.
    fn locks(&self, access: &RacyAccess) -> String {
        if access.locks.is_empty() {
            return "none".to_owned();
        }
        let locks = access.locks.iter();
        let locks = locks.map(|&(name, mode, source)| {
            let lock = match name {
                LockName::InFile { file, offset } => format!("{}+{offset:#x}", self.path(file)),
                LockName::InMemory { addr, .. } => addr.to_string(),
                _ => "a lock".to_owned(),
            };
            let mode = match mode {
                LockMode::Exclusive => "",
                LockMode::Shared => " (shared)",
            };
            let source = match source {
                LockSource::Function => "",
                LockSource::Semaphore => " (semaphore)",
                LockSource::Recognised => " (recognised)",
            };
            format!("{lock}{mode}{source}")
        });
        locks.collect::<Vec<_>>().join(", ")
    }
}

/// The finding for a race.
pub fn race_finding(race: &RawRace, context: &mut RaceContext<'_>) -> Finding {
    let mut stacks = vec![context.stack(role::STORE, race.store.site)];
    let mut events = vec![race.store.time.0];
    match &race.end {
        RacyEnd::Persisted(persist) => {
            stacks.push(context.stack(role::PERSIST, persist.site));
            events.push(persist.time.0);
        }
        RacyEnd::Overwritten(store) => {
            stacks.push(context.stack(role::OVERWRITE, store.site));
            events.push(store.time.0);
        }
        RacyEnd::Never => {}
    }
    for load in race.loads.iter().take(LOADS_KEPT) {
        stacks.push(context.stack(role::LOAD, load.load.site));
        events.push(load.load.time.0);
    }
    let harm = race.first_load().harm;
    if let Harm::Dependent { store, site, .. } = harm {
        stacks.push(context.stack(role::DEPENDENT_STORE, site));
        events.push(store.0);
    }
    let mut evidence = Evidence {
        ranges: vec![ByteRange {
            file: context.path(race.range.file),
            offset: race.range.offset,
            len: race.range.len,
        }],
        events,
        ..Evidence::default()
    };
    for (name, text) in details(race, context) {
        evidence.details.insert(name.to_owned(), text);
    }
    let mut finding = Finding::new(&PERSISTENCY_RACE, message(race), stacks, evidence);
    // Pairs that only could race are grouped: what has happened is counted exactly.
    let observed = race.loads.iter().map(|load| load.observed).sum();
    finding.count = match race.is_observed() {
        true => observed,
        false => race.count,
    };
    finding.replay = Some(format!("event:{}", race.store.time.0));
    if let Harm::Dependent { .. } = harm {
        finding.severity = Severity::Bug;
    }
    finding
}

fn message(race: &RawRace) -> String {
    let harm = race.first_load().harm;
    let text = match (harm, race.is_observed()) {
        (Harm::Dependent { .. }, _) => {
            "another thread read this store before it was durable, and made durable what depends on it"
        }
        (_, true) => "another thread read this store before it was durable",
        (_, false) => match race.end {
            RacyEnd::Never => "another thread can read this store, which is never made durable",
            _ => "another thread can read this store before it is durable",
        },
    };
    text.to_owned()
}

fn details(race: &RawRace, context: &RaceContext<'_>) -> Vec<(&'static str, String)> {
    let load = race.first_load();
    // How often is the count of the finding.
    let kind = match race.is_observed() {
        true => format!("{} in this run", Evidence::OBSERVED),
        false => {
            "inferred from locks and the order of threads; it did not happen in this run".to_owned()
        }
    };
    let mut details = vec![
        (Evidence::RACE, kind),
        ("harm", harm_text(load.harm)),
        ("locks at the store", context.locks(&race.store)),
        ("locks at the load", context.locks(&load.load)),
        (
            "threads",
            format!(
                "stored by {}, loaded by {}",
                race.store.thread, load.load.thread
            ),
        ),
    ];
    match &race.end {
        RacyEnd::Persisted(persist) => {
            details.push(("locks at the persist", context.locks(persist)));
            if (persist.process, persist.thread) != (race.store.process, race.store.thread) {
                details.push(("persist", "by another thread than the store".to_owned()));
            }
        }
        RacyEnd::Overwritten(store) => {
            details.push(("locks at the overwrite", context.locks(store)));
            details.push((
                "persist",
                "never: another store took its place before it was durable".to_owned(),
            ));
        }
        RacyEnd::Never => details.push(("persist", "never".to_owned())),
    }
    if race.loads.len() > 1 {
        details.push(("loads", number_of(race.loads.len() as u64, "site")));
    }
    details
}

fn harm_text(harm: Harm) -> String {
    let Harm::Dependent { how, overtook, .. } = harm else {
        return "unknown: what the reader does later with the value is not in the trace".to_owned();
    };
    let how = match how {
        Dependence::Target => "the reader stored into what the loaded pointer points to",
        _ => "the reader stored a copy of what it loaded",
    };
    let when = match overtook {
        true => "that store was durable before the data it depends on",
        false => "the data it depends on became durable first only by chance",
    };
    format!("dependent: {how}, and {when}")
}
