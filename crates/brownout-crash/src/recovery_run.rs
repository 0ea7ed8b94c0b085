//! A run of recovery, by what it did to persistent memory: at which times it can be interrupted by another crash, and what
//! that leaves (Jaaru §4, where recovery is one more execution on the stack).
//!
//! Its events are those of a trace, so that images, choices and histories are made of them as of the target's. What persists
//! of them is decided by the same model.

mod action_digest;
mod interrupted;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brownout_model::{CrashTime, Profile, SpaceId, StoreHistory, StoreHistoryBuilder, Tearing};
use brownout_recovery::{ByteRanges, RawFrame, RecoveryActions};
use brownout_trace::selection::Selection;
use brownout_trace::{AppPc, Definitions, Event, EventKind, FileId, ReadError};

use self::action_digest::ActionDigest;
use crate::effect::{Effect, Threads, add_to_history, effects};
use crate::failure_point::PointKind;

pub use interrupted::InterruptedImage;

/// A run of recovery.
#[derive(Clone, Debug)]
pub struct RecoveryRun {
    actions: Arc<RecoveryActions>,
    selection: Selection,
    /// Where recovery was started.
    directory: Arc<Path>,
}

/// A time at which a crash inside recovery can leave states that no other time shows.
#[derive(Clone, Debug)]
pub struct InnerCrash {
    pub time: CrashTime,
    /// How many actions were completed, and a digest of them.
    pub actions: u64,
    pub digest: u64,
    /// How many first reads recovery had made.
    pub reads: usize,
    /// The size of each persistent file that exists.
    pub sizes: Vec<Option<u64>>,
    /// What recovery was about to do.
    pub site: ActionSite,
}

/// An action of recovery: what it does, and where.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ActionSite {
    /// `None` at the end of recovery.
    pub kind: Option<PointKind>,
    /// Innermost first.
    pub frames: Vec<RawFrame>,
}

/// What can happen to a recovery.
#[derive(Clone, Debug, Default)]
pub struct InnerCrashes {
    pub crashes: Vec<InnerCrash>,
    /// The bytes of each persistent file that recovery has changed.
    pub written: Vec<ByteRanges>,
    /// For each number of first reads, a digest of all actions before the next one, or before the end.
    pub digests: Vec<u64>,
}

/// Bytes that recovery has stored.
#[derive(Clone, Debug)]
pub struct RecoveryStore {
    pub event: u64,
    /// How many actions were completed before it.
    pub actions: u64,
    /// Number of the persistent file.
    pub file: usize,
    pub offset: u64,
    pub bytes: Vec<u8>,
    pub frames: Vec<RawFrame>,
}

impl RecoveryRun {
    pub fn new(actions: Arc<RecoveryActions>) -> Self {
        let reader = actions.events();
        let directory = reader.map_or_else(|_| PathBuf::new(), |known| known.header().cwd.clone());
        Self {
            selection: actions.mapped_files().map(|(file, _)| file).collect(),
            directory: directory.into(),
            actions,
        }
    }

    /// The actions.
    pub fn actions(&self) -> &Arc<RecoveryActions> {
        &self.actions
    }

    /// Gives all events to `visit`, with the number of actions before each, until it breaks.
    fn walk(
        &self,
        mut visit: impl FnMut(&Event<'_>, &Definitions, u64) -> ControlFlow<()>,
    ) -> Result<u64, ReadError> {
        let mut actions = 0;
        self.actions.events()?.for_each(|event, definitions| {
            let next = visit(event, definitions, actions);
            actions += u64::from(is_action(&event.kind));
            next
        })?;
        Ok(actions)
    }

    /// The times at which a crash is worth trying: immediately before an action that narrows what may be lost, and at the end, if
    /// recovery has stored something since the last time.
    pub fn crashes(&self, profile: Profile, tearing: Tearing) -> Result<InnerCrashes, ReadError> {
        let mut found = InnerCrashes {
            written: vec![ByteRanges::exact(); self.actions.sizes.len()],
            ..InnerCrashes::default()
        };
        let mut history = StoreHistoryBuilder::of_recovery(profile, tearing);
        let mut threads = Threads::default();
        let mut digest = ActionDigest::default();
        let mut sizes = self.actions.sizes.clone();
        let mut taken = 0;
        let spaces = self.spaces(by_number);
        let total = self.walk(|event, definitions, actions| {
            let reads = self.reads_before(event.index.0);
            while found.digests.len() < reads {
                found.digests.push(digest.now());
            }
            let before = digest.now();
            self.effects(event, definitions, &profile, &spaces, |effect| {
                if let Some((space, range)) = effect.changed_bytes() {
                    found.written[space.0 as usize].insert(range);
                }
                add_to_history(&mut history, &mut threads, event, effect);
            });
            digest.add(self, event, definitions);
            for &time in &history.crash_times()[taken..] {
                found.crashes.push(InnerCrash {
                    time,
                    actions,
                    digest: before,
                    reads,
                    sizes: sizes.clone(),
                    site: ActionSite::of(event, definitions, &self.directory),
                });
            }
            taken = history.crash_times().len();
            self.resize(&mut sizes, &event.kind);
            ControlFlow::Continue(())
        })?;
        while found.digests.len() <= self.actions.events_before_reads.len() {
            found.digests.push(digest.now());
        }
        let stored_since = history.changed();
        let finished = history.finish();
        if let Some(&time) = finished.crash_times().last().filter(|_| stored_since) {
            found.crashes.push(InnerCrash {
                time,
                actions: total,
                digest: digest.now(),
                reads: self.actions.events_before_reads.len(),
                sizes,
                site: ActionSite::END,
            });
        }
        Ok(found)
    }

    /// All stores of the run, as the model has them. `space` gives the space of each persistent file.
    pub fn history(
        &self,
        profile: Profile,
        tearing: Tearing,
        space: impl Fn(usize) -> SpaceId,
    ) -> Result<StoreHistory, ReadError> {
        let mut history = StoreHistoryBuilder::of_recovery(profile, tearing);
        let mut threads = Threads::default();
        let spaces = self.spaces(space);
        self.walk(|event, definitions, _| {
            self.effects(event, definitions, &profile, &spaces, |effect| {
                add_to_history(&mut history, &mut threads, event, effect);
            });
            ControlFlow::Continue(())
        })?;
        Ok(history.finish())
    }

    /// What recovery does after so many actions.
    pub fn site(&self, actions: u64) -> Result<ActionSite, ReadError> {
        let mut site = ActionSite::END;
        self.walk(|event, definitions, before| {
            if before == actions && is_action(&event.kind) {
                site = ActionSite::of(event, definitions, &self.directory);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        Ok(site)
    }

    /// All stores, in order.
    pub fn stores(&self) -> Result<Vec<RecoveryStore>, ReadError> {
        let spaces = self.spaces(by_number);
        let mut stores = Vec::new();
        // Stores are effects under every profile.
        self.walk(|event, definitions, actions| {
            self.effects(event, definitions, &Profile::ADR, &spaces, |effect| {
                let (Effect::Store { at, bytes, .. } | Effect::Replace { at, bytes }) = effect
                else {
                    return;
                };
                stores.push(RecoveryStore {
                    event: event.index.0,
                    actions,
                    file: at.space.0 as usize,
                    offset: at.offset,
                    bytes: bytes.to_vec(),
                    frames: frames_of(event, definitions, &self.directory),
                });
            });
            ControlFlow::Continue(())
        })?;
        Ok(stores)
    }

    /// The space of each persistent file, by its number in the trace.
    fn spaces(&self, space: impl Fn(usize) -> SpaceId) -> Vec<(FileId, SpaceId)> {
        let files = self.actions.mapped_files();
        files.map(|(file, number)| (file, space(number))).collect()
    }

    /// Gives the effects of an event to `take`, in the spaces of the persistent files.
    fn effects<'e>(
        &self,
        event: &Event<'e>,
        definitions: &Definitions,
        profile: &Profile,
        spaces: &[(FileId, SpaceId)],
        mut take: impl FnMut(Effect<'e>),
    ) {
        let space_of = |space: SpaceId| {
            let known = spaces.iter().find(|(file, _)| file.0 == space.0);
            known.map(|&(_, space)| space)
        };
        effects(event, definitions, &self.selection, profile, |effect| {
            if let Some(effect) = effect.moved(space_of) {
                take(effect);
            }
        });
    }

    /// How many first reads there were before an event.
    fn reads_before(&self, event: u64) -> usize {
        let reads = &self.actions.events_before_reads;
        reads.partition_point(|&events| events <= event)
    }

    /// Follows the sizes of the persistent files.
    fn resize(&self, sizes: &mut [Option<u64>], kind: &EventKind<'_>) {
        let (file, size) = match *kind {
            EventKind::Map(mapping) => (mapping.file, mapping.file_len),
            EventKind::FileResize { file, len } => (file, len),
            EventKind::FileWrite {
                file,
                offset,
                bytes,
                ..
            } => (file, offset.saturating_add(bytes.len() as u64)),
            _ => return,
        };
        let is_write = matches!(kind, EventKind::FileWrite { .. });
        let number = self.actions.mapped_files().find(|known| known.0 == file);
        if let Some(known) = number.and_then(|(_, number)| sizes.get_mut(number)) {
            *known = match *known {
                Some(before) if is_write => Some(before.max(size)),
                _ => Some(size),
            };
        }
    }
}

/// Code that is not in a file has a name in brackets.
fn is_in_brackets(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().starts_with(b"[")
}

/// Without `./` at the start.
fn clean(path: &Path) -> &Path {
    path.strip_prefix(".").unwrap_or(path)
}

/// The space of a persistent file where only its number matters.
fn by_number(number: usize) -> SpaceId {
    SpaceId(number as u32)
}

/// Whether an event counts as an action on persistent memory.
fn is_action(kind: &EventKind<'_>) -> bool {
    matches!(
        kind,
        EventKind::Store { .. }
            | EventKind::KernelWrite { .. }
            | EventKind::Flush { .. }
            | EventKind::Fence { .. }
            | EventKind::Sync(_)
            | EventKind::FileWrite { .. }
            | EventKind::FileResize { .. }
    )
}

impl ActionSite {
    /// The end of recovery.
    const END: Self = Self {
        kind: None,
        frames: Vec::new(),
    };

    fn of(event: &Event<'_>, definitions: &Definitions, directory: &Path) -> Self {
        let kind = match event.kind {
            EventKind::Store { locked: true, .. } => PointKind::Locked,
            EventKind::Store { .. } => PointKind::Store,
            EventKind::Flush { .. } => PointKind::Flush,
            EventKind::Fence { .. } => PointKind::Fence,
            EventKind::Sync(_) => PointKind::WriteBack,
            EventKind::FileResize { .. } => PointKind::Resize,
            _ => PointKind::KernelWrite,
        };
        Self {
            kind: Some(kind),
            frames: frames_of(event, definitions, directory),
        }
    }
}

/// The calling context of an event, innermost first. Paths of modules may be relative to `directory`.
fn frames_of(event: &Event<'_>, definitions: &Definitions, directory: &Path) -> Vec<RawFrame> {
    if event.pc.0 == 0 {
        return Vec::new();
    }
    let frame = |pc: AppPc, is_return| match definitions.module_at(event.process, pc) {
        Some(module) => RawFrame {
            module: Some(match is_in_brackets(&module.path) {
                true => module.path.clone(),
                false => directory.join(clean(&module.path)),
            }),
            build_id: module.build_id.clone(),
            offset: pc.0 - module.addr.0 + module.file_offset,
            is_return,
        },
        None => RawFrame {
            module: None,
            build_id: Vec::new(),
            offset: pc.0,
            is_return,
        },
    };
    let callers = definitions.context_frames(event.process, event.context);
    let callers = callers.map(|pc| frame(pc, true));
    std::iter::once(frame(event.pc, false))
        .chain(callers)
        .collect()
}
