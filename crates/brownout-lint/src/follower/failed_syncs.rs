//! Calls that should have made data durable and failed: what they leave without durability is lost, though the target asked for it.
//!
//! Can miss: calls beyond the first [`MOST_CALLS`] with different sites or ranges.

use brownout_model::PmAddress;
use brownout_trace::{Definitions, Event, FailedCall, FailedSync, FileId, FileRange};

use crate::attribution::Attribution;
use crate::follower::Follower;
use crate::site_keys::SiteKey;

/// The most calls that are remembered.
const MOST_CALLS: usize = 1024;

/// A call that failed, with the part of the file that it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RangeOfCall {
    failed: FailedSync,
    range: FileRange,
    site: SiteKey,
    /// Its latest failure.
    time: u64,
}

/// Why a store is not durable although the target has asked for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyncFailure {
    pub(crate) failed: FailedSync,
    pub(crate) site: SiteKey,
    pub(crate) time: u64,
}

/// The calls of a run that failed.
#[derive(Debug, Default)]
pub(crate) struct FailedSyncs {
    calls: Vec<RangeOfCall>,
}

impl FailedSyncs {
    fn add(&mut self, call: RangeOfCall) {
        let same = |known: &&mut RangeOfCall| {
            (known.site, known.range, known.failed.error)
                == (call.site, call.range, call.failed.error)
        };
        if let Some(known) = self.calls.iter_mut().find(same) {
            known.time = call.time;
        } else if self.calls.len() < MOST_CALLS {
            self.calls.push(call);
        }
    }

    pub(crate) fn has(&self, file: FileId) -> bool {
        self.calls.iter().any(|call| call.range.file == file)
    }

    /// A call for the byte at `address` that failed after `time`.
    pub(crate) fn after(&self, address: PmAddress, time: u64) -> Option<SyncFailure> {
        let mut calls = self.calls.iter();
        let call = calls.find(|call| {
            let RangeOfCall { range, .. } = call;
            let end = range.offset.saturating_add(range.len);
            range.file.0 == address.space.0
                && (range.offset..end).contains(&address.offset)
                && call.time > time
        })?;
        Some(SyncFailure {
            failed: call.failed,
            site: call.site,
            time: call.time,
        })
    }
}

impl<A: Attribution> Follower<A> {
    /// Takes a note of the recording.
    #[cold]
    pub(crate) fn noted(&mut self, event: &Event<'_>, definitions: &Definitions, text: &str) {
        let Some(failed) = FailedSync::parse(text) else {
            return;
        };
        let ranges = match failed.call {
            FailedCall::Msync { addr, len } => self.addresses.resolve_all(event.process, addr, len),
            FailedCall::Fsync(identity) | FailedCall::Fdatasync(identity) => {
                let files = definitions.files();
                let file = files.filter(|file| file.identity == identity);
                let whole = |file| FileRange {
                    file,
                    offset: 0,
                    len: u64::MAX,
                };
                file.map(|file| whole(file.id)).collect()
            }
            _ => return,
        };
        let site = self.site(event, definitions);
        for range in ranges {
            self.failed_syncs.add(RangeOfCall {
                failed,
                range,
                site,
                time: event.index.0,
            });
        }
    }
}
