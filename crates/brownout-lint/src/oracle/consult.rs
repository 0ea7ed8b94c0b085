//! Shows the oracles each step, and counts what they report.

use std::path::Path;
use std::rc::Rc;

use brownout_model::{ByteMask, PmAddress, SpaceId, Tracker, line_parts};
use brownout_trace::selection::Selection;
use brownout_trace::{Address, Definitions, Event, EventKind, FileId, FileRange};
use rustc_hash::FxHashMap;

use super::{Action, Memory, Oracle, OracleFrame, OracleStep, Violation};
use crate::follower::address_spaces::AddressSpaces;
use crate::follower::guarantees::Guarantees;
use crate::raw_finding::RawFinding;
use crate::site_keys::{KnownSites, SiteKey};
use crate::tally::{Key, Occurrence, Tally};

/// The oracles of a pass.
#[derive(Default)]
pub(crate) struct Oracles {
    all: Vec<(Box<dyn Oracle>, Tally)>,
    shown: Shown,
}

/// What oracles have seen and can ask for again.
#[derive(Default)]
pub(crate) struct Shown {
    stacks: FxHashMap<SiteKey, Vec<OracleFrame>>,
    paths: FxHashMap<FileId, Rc<Path>>,
}

impl Shown {
    pub(crate) fn stack(&self, site: SiteKey) -> &[OracleFrame] {
        self.stacks.get(&site).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (FileId, &Path)> {
        self.paths.iter().map(|(&file, path)| (file, &**path))
    }

    fn path(&mut self, file: FileId, definitions: &Definitions) -> Rc<Path> {
        let path = self.paths.entry(file).or_insert_with(|| {
            let file = definitions.file(file);
            file.map_or(Path::new(""), |file| &file.path).into()
        });
        path.clone()
    }
}

impl Oracles {
    pub(crate) fn new(oracles: Vec<Box<dyn Oracle>>) -> Self {
        let all = oracles.into_iter().map(|oracle| {
            let tally = Tally::new(oracle.rule());
            (oracle, tally)
        });
        Oracles {
            all: all.collect(),
            shown: Shown::default(),
        }
    }

    #[inline]
    pub(crate) fn are_none(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn into_findings(
        self,
        sites: &KnownSites,
        selection: &Selection,
    ) -> impl Iterator<Item = RawFinding> {
        self.all
            .into_iter()
            .flat_map(|(_, tally)| tally.into_findings(sites, selection))
    }

    /// Remembers the stack of a site when it is first seen.
    pub(crate) fn learn_stack(&mut self, site: SiteKey, stack: impl FnOnce() -> Vec<OracleFrame>) {
        self.shown.stacks.entry(site).or_insert_with(stack);
    }

    /// Shows the oracles an event that the model has not seen yet.
    pub(crate) fn consult(&mut self, at: Consultation<'_>) {
        let process = at.event.process;
        match at.event.kind {
            EventKind::Store { addr, bytes, .. } | EventKind::KernelWrite { addr, bytes, .. } => {
                self.consult_store(at, addr, bytes);
            }
            EventKind::Flush { addr, .. } => {
                if let Some(range) = at.addresses.resolve(process, addr, 1) {
                    let path = &*self.shown.path(range.file, at.definitions);
                    self.show(&at, Action::Flush { range, path });
                }
            }
            EventKind::Fence { kind } => self.show(&at, Action::Fence { kind }),
            _ => {}
        }
    }

    fn consult_store(&mut self, at: Consultation<'_>, mut addr: Address, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let len = bytes.len() as u64;
            let Some(range) = at.addresses.resolve(at.event.process, addr, len) else {
                return;
            };
            let (now, later) = bytes.split_at(range.len as usize);
            let store = Action::Store {
                range,
                path: &self.shown.path(range.file, at.definitions),
                bytes: now,
            };
            self.show(&at, store);
            addr = Address(addr.0.wrapping_add(range.len));
            bytes = later;
        }
    }

    fn show(&mut self, at: &Consultation<'_>, action: Action<'_>) {
        let shown = &self.shown;
        let step = OracleStep {
            event: at.event.index,
            process: at.event.process,
            thread: at.event.thread,
            stack: shown.stack(at.site),
            action,
        };
        let memory = Memory {
            tracker: at.tracker,
            shown,
        };
        for (oracle, tally) in &mut self.all {
            if let Some(violation) = oracle.observe(&step, &memory) {
                count(tally, at.site, &step, violation);
            }
        }
    }
}

/// An event that oracles are asked about.
pub(crate) struct Consultation<'a> {
    pub(crate) tracker: &'a Tracker<Guarantees>,
    pub(crate) addresses: &'a mut AddressSpaces,
    pub(crate) event: &'a Event<'a>,
    pub(crate) definitions: &'a Definitions,
    pub(crate) site: SiteKey,
}

fn count(tally: &mut Tally, site: SiteKey, step: &OracleStep<'_>, violation: Violation) {
    let (role, range) = match step.action {
        Action::Store { range, .. } => ("store", Some(range)),
        Action::Flush { range, .. } => ("flush", Some(range)),
        Action::Fence { .. } => ("fence", None),
    };
    let other = violation.related.first();
    let key = Key {
        site,
        other: other.map_or(SiteKey::NONE, |(_, store)| store.site),
        file: range.map(|range| range.file),
    };
    let time = step.event.0;
    tally.add(key, time, || Occurrence {
        message: violation.message.into(),
        sites: std::iter::once((role, site, time))
            .chain(
                violation
                    .related
                    .iter()
                    .map(|(role, store)| (*role, store.site, store.event.0)),
            )
            .collect(),
        bytes: range.into_iter().flat_map(lines).collect(),
        ..Occurrence::default()
    });
}

fn lines(range: FileRange) -> impl Iterator<Item = (PmAddress, ByteMask)> {
    let space = SpaceId(range.file.0);
    line_parts(range.offset, range.len)
        .map(move |(offset, mask, _)| (PmAddress { space, offset }, mask))
}
