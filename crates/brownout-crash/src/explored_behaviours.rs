//! Behaviours of recovery that explorations have shown, so that explorations of other recordings need not run them again.
//!
//! A run of recovery is a function of what it reads. What it has read is known in full for some pages, the *observed* ones: each page that
//! differed between the crashes that were explored. All other pages were the same in each of its images; their digests are kept. So the run
//! tells how recovery ends on an image of another recording if the image shows the same bytes in the observed pages where the run has read
//! them, and has the same other pages.
//!
//! Only runs that have passed are kept. Can miss: whatever else recovery depends on beside the
//! [circumstances](ExploredBehaviours::circumstances): the machine, files of the system.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use brownout_recovery::ReadBytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::recovery_start::Start;
use crate::test_configuration::{TestConfiguration, TraceIdentity};

/// The behaviours that explorations have shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExploredBehaviours(Vec<ExploredPages>);

/// Runs in which the same pages were observed, and all others were the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExploredPages {
    /// Digest of what decides how a run ends, besides what it reads.
    circumstances: String,
    pub(crate) files: Vec<FilePages>,
    pub(crate) runs: ExploredRuns,
}

/// The pages of a persistent file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FilePages {
    #[serde(with = "brownout_recovery::path_text")]
    pub path: PathBuf,
    pub observed: BTreeSet<u64>,
    /// The digests of those of the others that are not zero.
    pub certain: BTreeMap<u64, u64>,
}

/// Runs of recovery that have passed, in the order of what they have read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExploredRuns(Vec<ExploredRun>);

/// A run of recovery that has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExploredRun {
    pub start: Start,
    /// What it has read of the observed pages, in order.
    pub reads: ReadBytes,
}

impl ExploredBehaviours {
    /// What decides how a run ends, besides what it reads: the commands of recovery with their options and programs, what they are
    /// expected to print, and the environment, of which a digest is given. Neither the recording nor the persistency model does. `None` if
    /// that is not known, because no program is named by its path.
    pub fn circumstances(configuration: &TestConfiguration, environment: u64) -> Option<String> {
        let same = TestConfiguration {
            trace: TraceIdentity::default(),
            patterns: Vec::new(),
            granularity: Default::default(),
            profile: String::new(),
            tearing: Default::default(),
            occurrences: None,
            after: None,
            from_start: false,
            within: Vec::new(),
            ..configuration.clone()
        };
        let text = serde_json::to_vec(&(same, environment)).expect("it is plain data");
        let is_known = !configuration.programs.is_empty();
        is_known.then(|| format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&text)))
    }

    /// Those that were shown under these circumstances.
    pub fn under(&self, circumstances: &str) -> Self {
        let same = |known: &&ExploredPages| known.circumstances == circumstances;
        Self(self.0.iter().filter(same).cloned().collect())
    }

    /// Adds what an exploration has shown under these circumstances.
    pub fn add(&mut self, shown: ExploredPages, circumstances: &str) {
        let shown = ExploredPages {
            circumstances: circumstances.to_owned(),
            ..shown
        };
        let same = |known: &&mut ExploredPages| {
            known.circumstances == shown.circumstances && known.files == shown.files
        };
        match self.0.iter_mut().find(same) {
            Some(known) => known.runs.unite(shown.runs),
            None => self.0.push(shown),
        }
    }

    /// How many behaviours there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(ExploredPages::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn pages(&self) -> &[ExploredPages] {
        &self.0
    }
}

impl ExploredPages {
    pub(crate) fn new(files: Vec<FilePages>, runs: Vec<ExploredRun>) -> Self {
        let mut own = ExploredRuns::default();
        own.unite(ExploredRuns(runs));
        Self {
            circumstances: String::new(),
            files,
            runs: own,
        }
    }

    /// How many runs there are.
    pub fn len(&self) -> usize {
        self.runs.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.runs.0.is_empty()
    }
}

impl ExploredRuns {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ExploredRun> {
        self.0.iter()
    }

    fn unite(&mut self, other: Self) {
        self.0.extend(other.0);
        self.0.sort_by_cached_key(|run| run.reads.to_text());
        self.0.dedup();
    }
}

/// A run as it is stored: most of what it has read is what the run before it has read, too.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredRun {
    start: Start,
    /// Digits that are those of the run before.
    shared: usize,
    reads: String,
}

impl Serialize for ExploredRuns {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut before = String::new();
        to.collect_seq(self.0.iter().map(|run| {
            let text = run.reads.to_text();
            let pairs = before.bytes().zip(text.bytes());
            let shared = pairs.take_while(|(a, b)| a == b).count();
            let stored = StoredRun {
                start: run.start.clone(),
                shared,
                reads: text[shared..].to_owned(),
            };
            before = text;
            stored
        }))
    }
}

impl<'de> Deserialize<'de> for ExploredRuns {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let damaged = || de::Error::custom("what a recovery has read is damaged");
        let mut before = String::new();
        let mut runs = Vec::new();
        for stored in Vec::<StoredRun>::deserialize(from)? {
            let shared = before.get(..stored.shared).ok_or_else(damaged)?;
            let text = format!("{shared}{}", stored.reads);
            runs.push(ExploredRun {
                start: stored.start,
                reads: ReadBytes::from_text(&text).ok_or_else(damaged)?,
            });
            before = text;
        }
        Ok(Self(runs))
    }
}

#[cfg(test)]
mod tests {
    use brownout_recovery::FirstRead;

    use super::*;

    fn run(reads: &[(u64, u8)]) -> ExploredRun {
        let read = |&(offset, byte): &(u64, u8)| {
            let read = FirstRead {
                file: 0,
                offset,
                len: 1,
            };
            (read, vec![byte])
        };
        ExploredRun {
            start: Start {
                operation: None,
                sizes: vec![Some(4096)],
            },
            reads: reads.iter().map(read).collect(),
        }
    }

    fn pages(observed: &[u64], runs: Vec<ExploredRun>) -> ExploredPages {
        let file = FilePages {
            path: "/pool".into(),
            observed: observed.iter().copied().collect(),
            certain: [(7, u64::MAX)].into(),
        };
        ExploredPages::new(vec![file], runs)
    }

    #[test]
    fn runs_with_the_same_pages_are_kept_together_and_once() {
        let mut known = ExploredBehaviours::default();
        known.add(pages(&[0], vec![run(&[(0, 1)])]), "a");
        known.add(pages(&[0], vec![run(&[(0, 2)]), run(&[(0, 1)])]), "a");
        assert_eq!((known.0.len(), known.len()), (1, 2));
        known.add(pages(&[0, 1], vec![run(&[(0, 1)])]), "a");
        known.add(pages(&[0], vec![run(&[(0, 1)])]), "b");
        assert_eq!((known.0.len(), known.len()), (3, 4));
        assert_eq!((known.under("a").len(), known.under("c").len()), (3, 0));
    }

    #[test]
    fn stored_behaviours_are_the_same_and_share_what_is_common() {
        let long: Vec<(u64, u8)> = (0..100).map(|offset| (offset, 1)).collect();
        let other = [&long[..99], &[(99, 2)]].concat();
        let mut known = ExploredBehaviours::default();
        let runs = vec![run(&long), run(&other), run(&[])];
        known.add(pages(&[0], runs), "a");
        let text = serde_json::to_string(&known).unwrap();
        let read: ExploredBehaviours = serde_json::from_str(&text).unwrap();
        assert_eq!(read, known);
        assert!(text.len() < run(&long).reads.to_text().len() * 2, "{text}");
        let damaged = text.replace("\"shared\":0", "\"shared\":9999");
        assert!(serde_json::from_str::<ExploredBehaviours>(&damaged).is_err());
    }
}
