//! Reads of recovery that can see several stores: which they are, and what was read.

use serde::{Deserialize, Serialize};

use crate::stack::base_name;
use crate::{ByteRange, Finding, Frame, Stack, primary_frame};

/// Bytes that recovery reads and that can come from several stores, given what it has read before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRead {
    /// The stack of the load, by its number among those of the finding, from 0; absent if it was not a load of mapped memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<usize>,
    #[serde(flatten)]
    pub range: ByteRange,
    /// How many more bytes the same load has read from the same stores.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_bytes: u64,
    /// What the bytes can come from, newest first.
    pub sources: Vec<OpenSource>,
    /// How many more sources there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_sources: u64,
}

/// What bytes that recovery reads can come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSource {
    /// The stack of the store, by its number; absent if it is the initial content of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<usize>,
    /// The position of the store in the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// Whether this is what recovery has read.
    pub read: bool,
    pub state: SourceState,
    /// The stack of the flush, if only a fence is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush: Option<usize>,
}

/// Why a crash can lose a store, or that it cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceState {
    /// Its line is not flushed between the store and the crash.
    NotFlushed,
    /// Its line is flushed, or it is non-temporal, and no fence follows before the crash.
    NotFenced,
    /// Its page is not synced between the store and the crash.
    NotSynced,
    /// It was durable before the crash.
    Durable,
    /// The content of the file when it was mapped.
    Initial,
}

pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Finding {
    /// The stacks to show to people first. The others only show what recovery can read, and a sentence names their locations.
    pub(crate) fn shown_stacks(&self) -> impl Iterator<Item = &Stack> {
        self.stacks
            .iter()
            .filter(|stack| !self.explains_reads(stack))
    }

    /// The stacks that only show what recovery can read.
    pub(crate) fn stacks_of_reads(&self) -> impl Iterator<Item = &Stack> {
        self.stacks
            .iter()
            .filter(|stack| self.explains_reads(stack))
    }

    fn explains_reads(&self, stack: &Stack) -> bool {
        stack.is_of_source() || self.is_crash_finding() && stack.is_of_open_read()
    }

    /// What is known about reads that can see several stores: a sentence each.
    pub fn open_read_sentences(&self) -> impl Iterator<Item = String> {
        let reads = self.evidence.open_reads.iter();
        reads.map(|read| read.sentence(&self.stacks))
    }

    /// How many such reads are not shown, in a sentence.
    pub fn more_open_reads_sentence(&self) -> Option<String> {
        let more = self.evidence.more_open_reads;
        let reads = if more == 1 { "read" } else { "reads" };
        (more > 0).then(|| format!("{more} more {reads} of recovery can see several stores"))
    }
}

impl OpenRead {
    fn sentence(&self, stacks: &[Stack]) -> String {
        let ByteRange { offset, len, .. } = self.range;
        let file = base_name(&self.range.file);
        let reader = self.load.and_then(|load| location(stacks, load));
        let reader = reader.unwrap_or_else(|| "recovery".to_owned());
        let versions = self.sources.len() as u64 + self.more_sources;
        let mut text = format!(
            "{reader} can see {versions} versions of {file}+{offset:#x}..{:#x}",
            offset.saturating_add(len)
        );
        if self.more_bytes > 0 {
            text.push_str(&format!(" and {} more bytes", self.more_bytes));
        }
        let read = |source: &&OpenSource| source.read;
        let seen: Vec<String> = self
            .sources
            .iter()
            .filter(read)
            .map(|source| source.phrase(stacks))
            .collect();
        text.push_str(&format!(": it read {}", seen.join(" and ")));
        // Newest first: what comes before the one that was read is newer.
        let first_seen = self.sources.iter().position(|source| source.read);
        for (number, source) in self
            .sources
            .iter()
            .enumerate()
            .filter(|(_, source)| !source.read)
        {
            let is_lost = first_seen.is_some_and(|seen| number < seen);
            let phrase = source.phrase(stacks);
            text.push_str(&match is_lost {
                true => format!("; not {phrase}"),
                false => format!("; without that, {phrase}"),
            });
        }
        match self.more_sources {
            0 => {}
            more => text.push_str(&format!("; or one of {more} others")),
        }
        text
    }
}

impl OpenSource {
    fn phrase(&self, stacks: &[Stack]) -> String {
        let store = self.store.and_then(|store| location(stacks, store));
        let store = match store {
            Some(location) => format!("the store at {location}"),
            None if self.state == SourceState::Initial => {
                return "the initial content".to_owned();
            }
            None => "a store at an unknown location".to_owned(),
        };
        let flush = self.flush.and_then(|flush| location(stacks, flush));
        match (self.state, flush) {
            (SourceState::NotFlushed, _) => {
                format!("{store}, which is not flushed before the crash")
            }
            (SourceState::NotFenced, Some(flush)) => {
                format!("{store}, which is flushed at {flush} and not fenced before the crash")
            }
            (SourceState::NotFenced, None) => {
                format!("{store}, which is not fenced before the crash")
            }
            (SourceState::NotSynced, _) => format!("{store}, which is not synced before the crash"),
            (SourceState::Durable | SourceState::Initial, _) => store,
        }
    }
}

impl SourceState {
    /// Whether the crash can lose it.
    pub fn is_losable(self) -> bool {
        !matches!(self, Self::Durable | Self::Initial)
    }
}

/// `list.c:42`, or the function.
fn location(stacks: &[Stack], number: usize) -> Option<String> {
    let frames = &stacks.get(number)?.frames;
    let frame: &Frame = frames.get(primary_frame(frames)?)?;
    Some(match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{}:{line}", base_name(file)),
        _ => frame.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Evidence;
    use crate::samples::{FAILED_RULE, frame, stack};
    use crate::stack::role;

    fn source(store: Option<usize>, read: bool, state: SourceState) -> OpenSource {
        OpenSource {
            event: store.map(|number| 10 - number as u64),
            store,
            read,
            state,
            flush: None,
        }
    }

    fn sentence(sources: Vec<OpenSource>) -> String {
        let stacks = vec![
            stack(role::LOAD, vec![frame("check", "src/list.c", 63)]),
            stack(role::STORE_READ, vec![frame("put", "src/list.c", 45)]),
            stack(role::STORE_NOT_READ, vec![frame("put", "src/list.c", 41)]),
            stack(
                role::UNFENCED_FLUSH,
                vec![frame("persist", "src/list.c", 30)],
            ),
        ];
        let read = OpenRead {
            load: Some(0),
            range: ByteRange {
                file: "/mnt/pmem/pool".into(),
                offset: 0x48,
                len: 8,
            },
            more_bytes: 0,
            sources,
            more_sources: 0,
        };
        let evidence = Evidence {
            open_reads: vec![read],
            ..Evidence::default()
        };
        let finding = Finding::new(&FAILED_RULE, "", stacks, evidence);
        finding.open_read_sentences().collect()
    }

    #[test]
    fn a_store_that_is_lost_is_named_with_what_is_missing() {
        let sources = vec![
            source(Some(2), false, SourceState::NotFlushed),
            source(None, true, SourceState::Initial),
        ];
        assert_eq!(
            sentence(sources),
            "list.c:63 can see 2 versions of pool+0x48..0x50: it read the initial content; not the store at list.c:41, \
             which is not flushed before the crash"
        );
    }

    #[test]
    fn a_store_that_was_read_and_can_be_lost_is_named_with_what_is_there_without_it() {
        let flushed = OpenSource {
            flush: Some(3),
            ..source(Some(1), true, SourceState::NotFenced)
        };
        let sources = vec![flushed, source(Some(2), false, SourceState::Durable)];
        assert_eq!(
            sentence(sources),
            "list.c:63 can see 2 versions of pool+0x48..0x50: it read the store at list.c:45, which is flushed at list.c:30 and not \
             fenced before the crash; without that, the store at list.c:41"
        );
    }
}
