//! What a recovery did to persistent memory, so that a crash inside of it can be rebuilt (Jaaru §3, its stack of executions).
//!
//! The events are a trace in memory. It has what changes the persistent files or makes changes durable, and what explains that: mappings,
//! threads, modules, calling contexts. Loads are not in it, and neither are fences that cannot order anything.
//!
//! Can miss: changes of a file that is not mapped when it is changed. The [runner](crate::RecoveryRunner) compares the files with
//! [`RecoveryActions::files_after`], and reports that as a gap.

use std::io::Cursor;

use brownout_trace::replay::{Content, Images};
use brownout_trace::{FileId, ReadError, TraceReader};
use serde::{Deserialize, Serialize};

use super::ByteRanges;

/// What a recovery did to the persistent files, in order, and when it read them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryActions {
    /// The size of each persistent file that existed when recovery started.
    pub sizes: Vec<Option<u64>>,
    /// For each [first read](crate::FirstRead), how many events of the trace came before it.
    pub events_before_reads: Vec<u64>,
    /// For each persistent file, bytes that were read and that recovery had not written itself before, other than those whose first reads
    /// were wanted. Never too few.
    pub other_reads: Vec<ByteRanges>,
    /// The persistent files by their numbers in the trace.
    pub(super) files: Vec<(u32, usize)>,
    pub(super) trace: Vec<u8>,
}

impl RecoveryActions {
    /// Of a recovery whose events are in `trace`. `files` are the numbers of the persistent files that it mapped, by those that they have
    /// in the trace.
    pub fn new(
        sizes: Vec<Option<u64>>,
        events_before_reads: Vec<u64>,
        files: Vec<(FileId, usize)>,
        trace: Vec<u8>,
    ) -> Self {
        Self {
            sizes,
            events_before_reads,
            files: files
                .into_iter()
                .map(|(file, number)| (file.0, number))
                .collect(),
            trace,
            ..Self::default()
        }
    }

    /// The events.
    pub fn events(&self) -> Result<TraceReader<Cursor<&[u8]>>, ReadError> {
        TraceReader::new(Cursor::new(&self.trace[..]))
    }

    /// The persistent files that were mapped, by their numbers in the trace.
    pub fn mapped_files(&self) -> impl Iterator<Item = (FileId, usize)> {
        self.files
            .iter()
            .map(|&(file, number)| (FileId(file), number))
    }

    /// The content that each mapped persistent file has before the first event, if the persistent files are as in `image`, by its number in
    /// the trace.
    pub fn contents<'i>(
        &self,
        image: &'i [Option<Content>],
    ) -> impl Iterator<Item = (FileId, &'i Content)> {
        self.mapped_files()
            .filter_map(|(file, number)| Some((file, image.get(number)?.as_ref()?)))
    }

    /// The persistent files after all events, if they were as in `image` before.
    pub(crate) fn files_after(
        &self,
        image: &[Option<Content>],
    ) -> Result<Vec<Option<Content>>, ReadError> {
        let contents = self.contents(image);
        let mut images =
            Images::with_contents(contents.map(|(file, content)| (file, content.clone())));
        let mut reader = self.events()?;
        while let Some(event) = reader.next()? {
            images.apply(&event);
        }
        let mut after = image.to_vec();
        for (file, number) in self.mapped_files() {
            if let (Some(image), Some(slot)) = (images.file(file), after.get_mut(number)) {
                *slot = Some(image.content().clone());
            }
        }
        Ok(after)
    }
}

/// Anything that postcard writes, as hexadecimal digits.
pub(super) mod as_hexadecimal {
    use serde::de::{DeserializeOwned, Error as _};
    use serde::ser::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize, Serializer};

    use crate::reads::hexadecimal::{from_digits, to_digits};

    pub fn serialize<T: Serialize, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let bytes = postcard::to_stdvec(value).map_err(S::Error::custom)?;
        to.serialize_str(&to_digits(&bytes))
    }

    pub fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let text = String::deserialize(from)?;
        let bytes = from_digits(&text);
        let value = bytes.and_then(|bytes| postcard::from_bytes(&bytes).ok());
        value.ok_or_else(|| D::Error::custom("the actions of a recovery are damaged"))
    }
}
