//! Which stores of the target write bytes that recovery reads.

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use brownout_recovery::{ByteRanges, RecoveryReads};
use brownout_trace::{Address, Definitions, Event, EventIndex, EventKind};
use rustc_hash::FxHashMap;

use crate::error::CrashError;
use crate::observed_reads::ObservedReads;
use crate::recorded_run::RecordedRun;
use crate::suspect::{Suspect, SuspectSite, Suspicion};

/// The bytes that recovery reads of the files that it opens. A file that it does not use shows nothing about its bytes.
struct ReadBytes<'a> {
    files: HashMap<&'a Path, &'a ByteRanges>,
}

impl<'a> ReadBytes<'a> {
    fn of(reads: &'a RecoveryReads) -> Self {
        let opened = reads.files.iter().filter(|file| file.opened);
        let files = opened.map(|file| (file.path.as_path(), &file.ranges));
        Self {
            files: files.collect(),
        }
    }

    /// Whether recovery reads any of these bytes; `None` if it does not open the file.
    fn include(&self, path: &Path, range: Range<u64>) -> Option<bool> {
        Some(self.files.get(path)?.overlaps(range))
    }

    /// Whether recovery reads any of the bytes that an event changes; `None` if it changes no file that recovery opens.
    fn include_changes(&self, event: &Event<'_>, definitions: &Definitions) -> Option<bool> {
        let mut is_read = None;
        for_each_change(event, definitions, |path, range| {
            if let Some(included) = self.include(path, range) {
                is_read = Some(included || is_read == Some(true));
            }
        });
        is_read
    }
}

/// Calls `changed` with each range of a file that an event changes.
fn for_each_change(
    event: &Event<'_>,
    definitions: &Definitions,
    mut changed: impl FnMut(&Path, Range<u64>),
) {
    match event.kind {
        EventKind::Store { addr, bytes, .. } | EventKind::KernelWrite { addr, bytes, .. } => {
            let Some(process) = definitions.process(event.process) else {
                return;
            };
            let mut at = addr.0;
            let end = addr.0.saturating_add(bytes.len() as u64);
            let space = process.address_space();
            while at < end
                && let Some(range) = space.resolve(Address(at), end - at)
                && range.len > 0
            {
                if let Some(file) = definitions.file(range.file) {
                    changed(&file.path, range.offset..range.offset + range.len);
                }
                at += range.len;
            }
        }
        EventKind::FileWrite {
            file,
            offset,
            bytes,
            ..
        } => {
            if let Some(file) = definitions.file(file) {
                changed(&file.path, offset..offset + bytes.len() as u64);
            }
        }
        _ => {}
    }
}

/// What recovery does with the bytes that some stores write. Of several, the last one in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoredBytesUse {
    /// It overwrites all of them before it reads any.
    Overwritten,
    Unread,
    Read,
}

impl StoredBytesUse {
    /// What is known about two sets of bytes together: nothing, if nothing is known of one of them and the other is not read.
    pub fn of_both(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(Self::Read), _) | (_, Some(Self::Read)) => Some(Self::Read),
            (Some(one), Some(other)) => Some(one.max(other)),
            _ => None,
        }
    }
}

/// For each suspect, what recovery does with the bytes that its stores write; `None` if that is not known.
pub fn stored_bytes_uses(
    suspects: &[Suspect],
    run: &RecordedRun,
    observed: &ObservedReads,
) -> Result<Vec<Option<StoredBytesUse>>, CrashError> {
    let mut uses = vec![None; suspects.len()];
    let ObservedReads::Known(reads) = observed else {
        return Ok(uses);
    };
    let mut by_store: FxHashMap<SuspectSite, Vec<usize>> = FxHashMap::default();
    for (number, suspect) in suspects.iter().enumerate() {
        if let Suspicion::LostStore { stores, .. } = &suspect.suspicion {
            for store in stores {
                by_store.entry(store.site).or_default().push(number);
            }
        }
    }
    if by_store.is_empty() {
        return Ok(uses);
    }
    let bytes = ReadBytes::of(reads);
    run.walk(|event, definitions| {
        let is_store = matches!(
            event.kind,
            EventKind::Store { .. } | EventKind::KernelWrite { .. }
        );
        if is_store
            && let Some(suspects) = by_store.get(&SuspectSite::of(event))
            && let Some(is_read) = bytes.include_changes(event, definitions)
        {
            let used = match is_read {
                true => StoredBytesUse::Read,
                false if is_overwritten(event, definitions, reads) => StoredBytesUse::Overwritten,
                false => StoredBytesUse::Unread,
            };
            for &number in suspects {
                uses[number] = uses[number].max(Some(used));
            }
        }
        ControlFlow::<()>::Continue(())
    })?;
    // What may have been read without being seen is not known to be unread.
    if !reads.gaps.is_empty() {
        uses.iter_mut()
            .for_each(|used| *used = used.filter(|&used| used == StoredBytesUse::Read));
    }
    Ok(uses)
}

/// Whether recovery overwrites all bytes that an event changes before it reads any of them.
fn is_overwritten(event: &Event<'_>, definitions: &Definitions, reads: &RecoveryReads) -> bool {
    let mut all = true;
    for_each_change(event, definitions, |path, range| {
        all &= reads.is_overwritten(path, range);
    });
    all
}

/// Whether recovery reads any byte that crashes from the event `first` on change: one that is stored later, or was stored since the
/// last fence before. `None` if that is not known, if recovery reads nothing, or if nothing is changed.
pub fn reads_changed_bytes(
    run: &RecordedRun,
    observed: &ObservedReads,
    first: EventIndex,
) -> Result<Option<bool>, CrashError> {
    let ObservedReads::Known(reads) = observed else {
        return Ok(None);
    };
    if !reads.gaps.is_empty() || reads.is_nothing_read() {
        return Ok(None);
    }
    let bytes = ReadBytes::of(reads);
    let mut is_read = None;
    run.walk(|event, definitions| {
        let is_early = event.index < first;
        if is_early && matches!(event.kind, EventKind::Fence { .. }) {
            is_read = None;
        }
        if let Some(included) = bytes.include_changes(event, definitions) {
            is_read = Some(included || is_read == Some(true));
        }
        match is_read == Some(true) && !is_early {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    Ok(is_read)
}

/// The bytes of each file that recovery reads and that crashes from the event `first` on change, as [`reads_changed_bytes`] looks for
/// them. There are none if it is not known what recovery reads.
pub(crate) fn changed_bytes_read(
    run: &RecordedRun,
    observed: &ObservedReads,
    first: EventIndex,
) -> Result<HashMap<PathBuf, ByteRanges>, CrashError> {
    let mut changed: HashMap<PathBuf, ByteRanges> = HashMap::new();
    let ObservedReads::Known(reads) = observed else {
        return Ok(changed);
    };
    let bytes = ReadBytes::of(reads);
    run.walk(|event, definitions| {
        if event.index < first && matches!(event.kind, EventKind::Fence { .. }) {
            changed.clear();
        }
        for_each_change(event, definitions, |path, range| {
            let read = bytes.files.get(path).map(|read| read.common(range));
            for part in read.unwrap_or_default() {
                match changed.get_mut(path) {
                    Some(known) => known.insert(part),
                    None => changed.entry(path.to_owned()).or_default().insert(part),
                }
            }
        });
        ControlFlow::<()>::Continue(())
    })?;
    Ok(changed)
}
