//! What recovery has read and could have read otherwise, as crash testing reports and keeps it.

use brownout_report::{ByteRange, Finding, Frame, OpenRead, OpenSource, SourceState, Stack, role};
use serde::{Deserialize, Serialize};

use crate::crash_point::CrashPoint;
use crate::failure_point::StackId;
use crate::findings::stack;
use crate::symbols::Symbols;

/// The role of the store that a finding is about.
pub(crate) const STORE: &str = "store";

/// What a failed recovery has read that could have been something else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The crash point of its [`Trial`](crate::Trial).
    pub explains: CrashPoint,
    /// In the order in which recovery gets to them.
    pub reads: Vec<ExplainedRead>,
    /// How many more there are.
    pub more: u64,
}

/// Bytes that recovery has read and that can come from several stores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainedRead {
    /// Innermost frame first; empty if it was not a load.
    pub load: Vec<Frame>,
    pub range: ByteRange,
    /// Further bytes that the same load has read from the same stores.
    pub more_bytes: u64,
    /// Newest first.
    pub sources: Vec<ExplainedSource>,
    pub more_sources: u64,
}

/// What these bytes can come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainedSource {
    /// `None` if it is the initial content of the file.
    pub event: Option<u64>,
    pub store: Vec<Frame>,
    pub read: bool,
    pub state: SourceState,
    /// Where the store was flushed, if only a fence is missing.
    pub flush: Vec<Frame>,
}

impl Explanation {
    /// Adds the stacks and what they mean to the finding of the failure.
    pub(crate) fn add_to(&self, finding: &mut Finding) {
        for read in &self.reads {
            let open = read.as_open_read(&mut finding.stacks);
            finding.evidence.open_reads.push(open);
        }
        finding.evidence.more_open_reads = self.more;
    }
}

impl ExplainedRead {
    /// Adds its stacks to those of a finding.
    pub(crate) fn as_open_read(&self, stacks: &mut Vec<Stack>) -> OpenRead {
        let own = stacks.len();
        let mut add = |role: &str, frames: &[Frame]| {
            // The store that the finding is about is there already.
            let mut known = stacks[..own].iter();
            let known = known.position(|stack| stack.role == STORE && stack.frames == frames);
            known.or_else(|| {
                (!frames.is_empty()).then(|| {
                    stacks.push(stack(role, frames));
                    stacks.len() - 1
                })
            })
        };
        let load = add(role::LOAD, &self.load);
        let sources = self.sources.iter().map(|source| OpenSource {
            store: match source.read {
                true => add(role::STORE_READ, &source.store),
                false => add(role::STORE_NOT_READ, &source.store),
            },
            event: source.event,
            read: source.read,
            state: source.state,
            flush: add(role::UNFENCED_FLUSH, &source.flush),
        });
        OpenRead {
            sources: sources.collect(),
            load,
            range: self.range.clone(),
            more_bytes: self.more_bytes,
            more_sources: self.more_sources,
        }
    }
}

/// What no crash can lose: the last store before those that it can, or the initial content.
pub(crate) fn settled_source(
    last: Option<(u64, Option<StackId>)>,
    read: bool,
    symbols: &mut dyn Symbols,
) -> ExplainedSource {
    let stack = last.and_then(|(_, stack)| stack);
    ExplainedSource {
        event: last.map(|(event, _)| event),
        store: stack.map_or_else(Vec::new, |stack| symbols.frames(stack)),
        read,
        state: match last {
            Some(_) => SourceState::Durable,
            None => SourceState::Initial,
        },
        flush: Vec::new(),
    }
}
