//! Shows oracles what happens, and counts what they object to.

use std::path::Path;
use std::rc::Rc;

use brownout_model::{PmAddress, SpaceId, Tracker};
use brownout_trace::selection::Selection;
use brownout_trace::{Address, Definitions, Event, EventKind, FileId, FileRange};
use rustc_hash::FxHashMap;

use super::{Action, Frame, Memory, Moment, Oracle, Violation};
use crate::attribution::Attribution;
use crate::follower::Lint;
use crate::follower::guarantees::Watch;
use crate::raw_finding::RawFinding;
use crate::site_keys::{Known, SiteId};
use crate::tally::{Key, Occurrence, Tally};

/// The oracles of a pass.
#[derive(Default)]
pub(crate) struct Oracles {
    all: Vec<(Box<dyn Oracle>, Tally)>,
    shown: Shown,
}

/// What oracles were shown before and can ask for again.
#[derive(Default)]
pub(crate) struct Shown {
    stacks: FxHashMap<SiteId, Vec<Frame>>,
    paths: FxHashMap<FileId, Rc<Path>>,
}

impl Shown {
    pub(crate) fn stack(&self, site: SiteId) -> &[Frame] {
        self.stacks.get(&site).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (FileId, &Path)> {
        self.paths.iter().map(|(&file, path)| (file, &**path))
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
        known: &Known,
        selection: &Selection,
    ) -> impl Iterator<Item = RawFinding> {
        self.all
            .into_iter()
            .flat_map(|(_, tally)| tally.into_findings(known, selection))
    }

    fn show(
        &mut self,
        tracker: &Tracker<Watch>,
        site: SiteId,
        event: &Event<'_>,
        action: Action<'_>,
    ) {
        let shown = &self.shown;
        let moment = Moment {
            event: event.index,
            process: event.process,
            thread: event.thread,
            stack: shown.stack(site),
            action,
        };
        let memory = Memory {
            tracker,
            oracles: shown,
        };
        for (oracle, tally) in &mut self.all {
            if let Some(violation) = oracle.observe(&moment, &memory) {
                count(tally, site, &moment, violation);
            }
        }
    }
}

fn count(tally: &mut Tally, site: SiteId, moment: &Moment<'_>, violation: Violation) {
    let (role, range) = match moment.action {
        Action::Store { range, .. } => ("store", Some(range)),
        Action::Flush { range, .. } => ("flush", Some(range)),
        Action::Fence { .. } => ("fence", None),
    };
    let other = violation.related.first();
    let key = Key {
        site,
        other: other.map_or(SiteId::NONE, |(_, store)| store.place.0),
        file: range.map(|range| range.file),
    };
    let time = moment.event.0;
    tally.add(key, time, || Occurrence {
        message: violation.message,
        places: std::iter::once((role, site, time))
            .chain(
                violation
                    .related
                    .iter()
                    .map(|(role, store)| (*role, store.place.0, store.event.0)),
            )
            .collect(),
        bytes: range.into_iter().flat_map(lines).collect(),
        values: Vec::new(),
    });
}

fn lines(range: FileRange) -> impl Iterator<Item = (PmAddress, brownout_model::ByteMask)> {
    let space = SpaceId(range.file.0);
    brownout_model::line_parts(range.offset, range.len)
        .map(move |(offset, mask, _)| (PmAddress { space, offset }, mask))
}

impl<A: Attribution> Lint<A> {
    /// Shows the oracles an event that the model has not seen yet.
    #[cold]
    pub(crate) fn consult(&mut self, event: &Event<'_>, definitions: &Definitions, site: SiteId) {
        let sites = &mut self.sites;
        let stacks = &mut self.oracles.shown.stacks;
        stacks.entry(site).or_insert_with(|| sites.stack(site));
        match event.kind {
            EventKind::Store { addr, bytes, .. } | EventKind::KernelWrite { addr, bytes, .. } => {
                self.consult_store(event, definitions, site, addr, bytes);
            }
            EventKind::Flush { addr, .. } => {
                if let Some(range) = self.addresses.resolve(event.process, addr, 1) {
                    let path = &*self.path(range.file, definitions);
                    let flush = Action::Flush { range, path };
                    self.oracles.show(&self.tracker, site, event, flush);
                }
            }
            EventKind::Fence { kind } => {
                let fence = Action::Fence { kind };
                self.oracles.show(&self.tracker, site, event, fence);
            }
            _ => {}
        }
    }

    fn consult_store(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        site: SiteId,
        mut addr: Address,
        mut bytes: &[u8],
    ) {
        while !bytes.is_empty() {
            let len = bytes.len() as u64;
            let Some(range) = self.addresses.resolve(event.process, addr, len) else {
                return;
            };
            let (now, later) = bytes.split_at(range.len as usize);
            let store = Action::Store {
                range,
                path: &self.path(range.file, definitions),
                bytes: now,
            };
            self.oracles.show(&self.tracker, site, event, store);
            addr = Address(addr.0.wrapping_add(range.len));
            bytes = later;
        }
    }

    fn path(&mut self, file: FileId, definitions: &Definitions) -> Rc<Path> {
        let paths = &mut self.oracles.shown.paths;
        let path = paths.entry(file).or_insert_with(|| {
            let file = definitions.file(file);
            file.map_or(Path::new(""), |file| &file.path).into()
        });
        path.clone()
    }
}
