//! The journal: every trial is written as soon as it is done, so that nothing is lost when crash testing ends early. A loss of
//! power loses the trials of a few seconds: the storage is not waited for after each.
//!
//! A file of JSON lines. The first describes the test, each other is a [`Trial`], a [`Cause`], an [`Explanation`], a suspect with its
//! images, what recovery [reads](ObservedReads), the [`CampaignEnding`] of a campaign, defines a [part](repeated_parts) of trials, or takes
//! trials back. An incomplete last line is dropped when the journal is read again.
//!
//! Version 2 names the strategy, and crash points instead of events. Version 3 says when all crash points were tried:
//! a strategy that learns does not know their number before. Version 4 says why each crash point was tried, and how
//! much there was to try, and has any number of operations. Version 5 says whether stores can be torn, and has
//! crashes inside recovery. Version 6 says which verdicts no native recovery has given, and can take these back. Version 7 has each
//! stack and each series of updates once: ten thousand failures were 60 megabytes.

mod repeated_parts;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::cause::Cause;
use crate::coverage::CampaignEnding;
use crate::explained_read::Explanation;
use crate::observed_reads::ObservedReads;
use crate::shard::Shard;
use crate::suspect::SuspectImages;
use crate::test_configuration::TestConfiguration;
use crate::trial::Trial;
use repeated_parts::{PartLine, ReadParts, WrittenParts};

/// Of the journal's format.
pub const VERSION: u32 = 7;

/// How old the last line may get before the storage has it, as long as lines are written.
const SYNC_INTERVAL: Duration = Duration::from_secs(5);

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    #[serde(flatten)]
    pub configuration: TestConfiguration,
    pub shards: Vec<Shard>,
    /// Crash points of all shards together, as far as the strategy knew at the start.
    pub points: u64,
}

/// What every version of the first line has.
#[derive(Deserialize)]
struct HeadVersion {
    version: u32,
}

/// Any other line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Part(PartLine),
    Trial(Box<Trial>),
    Cause(Cause),
    Explanation(Explanation),
    Suspect(SuspectImages),
    Ending(Box<CampaignEnding>),
    Reads(ReadsLine),
    Retraction(RetractionLine),
}

/// What recovery reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ReadsLine {
    recovery_reads: ObservedReads,
}

/// Takes back all trials before it whose verdicts no native recovery has given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct RetractionLine {
    /// How many these are.
    retracted: u64,
}

/// What a journal holds.
#[derive(Clone, Debug)]
pub struct Entries {
    pub head: Head,
    /// One for each crash point, the last one if the file has several.
    pub trials: Vec<Trial>,
    pub causes: Vec<Cause>,
    pub explanations: Vec<Explanation>,
    pub suspects: Vec<SuspectImages>,
    /// `None` if the run ended before recovery was observed.
    pub reads: Option<ObservedReads>,
    /// `None` if no campaign has ended: it is running, or was killed.
    pub ending: Option<CampaignEnding>,
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    #[error("cannot read the journal {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write the journal {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not a journal of crash testing", path.display())]
    NotAJournal {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error(
        "the journal {} has version {found}, but this version of brownout reads version {VERSION}; \
         start again without --resume",
        path.display()
    )]
    OtherVersion { path: PathBuf, found: u32 },
    #[error("line {line} of the journal {} is damaged", path.display())]
    Damaged {
        path: PathBuf,
        line: usize,
        #[source]
        source: serde_json::Error,
    },
}

/// Reads a journal; `None` if there is none.
pub fn read(path: &Path) -> Result<Option<Entries>, JournalError> {
    let read_failed = |source| JournalError::Read {
        path: path.to_owned(),
        source,
    };
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(read_failed)?,
    };
    let mut reader = BufReader::new(file);
    let mut text = String::new();
    reader.read_line(&mut text).map_err(read_failed)?;
    if !text.ends_with('\n') {
        // The first line is incomplete: nothing was done yet.
        return Ok(None);
    }
    let not_a_journal = |source| JournalError::NotAJournal {
        path: path.to_owned(),
        source,
    };
    let HeadVersion { version } = serde_json::from_str(&text).map_err(not_a_journal)?;
    if version != VERSION {
        return Err(JournalError::OtherVersion {
            path: path.to_owned(),
            found: version,
        });
    }
    let head = serde_json::from_str(&text).map_err(not_a_journal)?;
    let mut entries = Entries {
        head,
        trials: Vec::new(),
        causes: Vec::new(),
        explanations: Vec::new(),
        suspects: Vec::new(),
        reads: None,
        ending: None,
    };
    let mut parts = ReadParts::default();
    let mut tried = HashMap::new();
    for line in 2.. {
        text.clear();
        reader.read_line(&mut text).map_err(read_failed)?;
        if !text.ends_with('\n') {
            break;
        }
        let damaged = |source| JournalError::Damaged {
            path: path.to_owned(),
            line,
            source,
        };
        match read_line(&text, &parts) {
            Ok(Line::Part(part)) => parts.define(part),
            Ok(Line::Trial(trial)) => match tried.entry(trial.point.clone()) {
                // It was repeated to observe more.
                Entry::Occupied(known) => entries.trials[*known.get()] = *trial,
                Entry::Vacant(new) => {
                    new.insert(entries.trials.len());
                    entries.trials.push(*trial);
                }
            },
            Ok(Line::Retraction(_)) => {
                entries.trials.retain(|trial| trial.indirect.is_none());
                let points = entries.trials.iter().map(|trial| trial.point.clone());
                tried = points.zip(0..).collect();
            }
            Ok(Line::Cause(cause)) => entries.causes.push(cause),
            Ok(Line::Explanation(explanation)) => entries.explanations.push(explanation),
            Ok(Line::Suspect(suspect)) => entries.suspects.push(suspect),
            Ok(Line::Reads(line)) => entries.reads = Some(line.recovery_reads),
            Ok(Line::Ending(ending)) => {
                entries.ending = Some(match entries.ending {
                    Some(earlier) => earlier.continued(*ending),
                    None => *ending,
                });
            }
            Err(source) => return Err(damaged(source)),
        }
    }
    Ok(Some(entries))
}

fn read_line(text: &str, parts: &ReadParts) -> Result<Line, serde_json::Error> {
    let mut line = serde_json::from_str(text)?;
    parts.restore(&mut line)?;
    serde_json::from_value(line)
}

/// A journal that is written to.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// When the storage was last made to have all lines.
    synced: Instant,
    parts: WrittenParts,
}

impl Journal {
    /// Starts a new journal.
    pub fn create(path: &Path, head: &Head) -> Result<Self, JournalError> {
        let failed = |source| JournalError::Write {
            path: path.to_owned(),
            source,
        };
        let mut journal = Self {
            path: path.to_owned(),
            file: File::create(path).map_err(failed)?,
            synced: Instant::now(),
            parts: WrittenParts::default(),
        };
        journal.write(head)?;
        journal.sync()?;
        Ok(journal)
    }

    /// Continues a journal that [`read`] has read, without its incomplete last line.
    pub fn resume(path: &Path) -> Result<Self, JournalError> {
        let failed = |source| JournalError::Write {
            path: path.to_owned(),
            source,
        };
        let open = || -> io::Result<(File, WrittenParts)> {
            let mut file = OpenOptions::new().read(true).write(true).open(path)?;
            let content = std::fs::read(path)?;
            let whole = content.iter().rposition(|&byte| byte == b'\n');
            let whole = whole.map_or(0, |end| end + 1);
            file.set_len(whole as u64)?;
            file.seek(io::SeekFrom::End(0))?;
            let parts = WrittenParts::read(&String::from_utf8_lossy(&content[..whole]))?;
            Ok((file, parts))
        };
        let (file, parts) = open().map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            synced: Instant::now(),
            parts,
        })
    }

    pub fn trial(&mut self, trial: &Trial) -> Result<(), JournalError> {
        if trial.failure.is_none() {
            return self.write(trial);
        }
        let line = serde_json::to_value(trial);
        let mut line = line.map_err(|source| JournalError::Write {
            path: self.path.clone(),
            source: source.into(),
        })?;
        for part in self.parts.replace(&mut line) {
            self.write(&part)?;
        }
        self.write(&line)
    }

    /// Takes back all trials so far whose verdicts no native recovery has given.
    pub fn retract(&mut self, retracted: u64) -> Result<(), JournalError> {
        self.write(&RetractionLine { retracted })
    }

    pub fn cause(&mut self, cause: &Cause) -> Result<(), JournalError> {
        self.write(cause)
    }

    pub fn explanation(&mut self, explanation: &Explanation) -> Result<(), JournalError> {
        self.write(explanation)
    }

    pub fn suspect(&mut self, suspect: &SuspectImages) -> Result<(), JournalError> {
        self.write(suspect)
    }

    pub fn reads(&mut self, reads: &ObservedReads) -> Result<(), JournalError> {
        self.write(&ReadsLine {
            recovery_reads: reads.clone(),
        })
    }

    pub fn ending(&mut self, ending: &CampaignEnding) -> Result<(), JournalError> {
        self.write(ending)?;
        self.sync()
    }

    /// Makes the storage have all lines.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        self.synced = Instant::now();
        self.file.sync_data().map_err(|source| JournalError::Write {
            path: self.path.clone(),
            source,
        })
    }

    /// Writes a line in one call, so that it may be incomplete but is never mixed with another.
    fn write(&mut self, line: &impl Serialize) -> Result<(), JournalError> {
        let written = serde_json::to_vec(line).map_err(io::Error::from);
        let written = written.and_then(|mut text| {
            text.push(b'\n');
            self.file.write_all(&text)
        });
        written.map_err(|source| JournalError::Write {
            path: self.path.clone(),
            source,
        })?;
        match self.synced.elapsed() < SYNC_INTERVAL {
            true => Ok(()),
            false => self.sync(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::{CampaignEnd, Extent, TrialPurpose};
    use crate::crash_point::{Choice, CrashPoint, OtherLines};
    use crate::failure_point::{Granularity, PointKind};
    use crate::strategy::StrategyId;
    use crate::test_configuration::TraceIdentity;
    use brownout_model::Tearing;
    use brownout_recovery::{IndirectVerdict, Recovery};

    fn head() -> Head {
        let configuration = TestConfiguration {
            version: VERSION,
            strategy: StrategyId {
                name: "prefix".into(),
                version: 1,
            },
            trace: TraceIdentity {
                started: 7,
                bytes: 9,
            },
            patterns: Vec::new(),
            recovery: Recovery::new("true", "/"),
            granularity: Granularity::default(),
            profile: "adr".into(),
            tearing: Tearing::Words,
            occurrences: None,
            depth: 1,
            after: None,
            operations: Vec::new(),
            from_start: false,
            within: Vec::new(),
            time_limit: None,
            expected: String::new(),
            programs: String::new(),
        };
        Head {
            configuration,
            shards: vec![Shard::default()],
            points: 3,
        }
    }

    fn trial(point: CrashPoint) -> Trial {
        Trial {
            point,
            kind: PointKind::Fence,
            purpose: TrialPurpose::default(),
            operation: None,
            image: "0".into(),
            same_as: Some(CrashPoint::program_order(1)),
            reached_from: None,
            verdict: brownout_recovery::Verdict::Passed,
            fails_anyway: false,
            seconds: 0.5,
            failure: None,
            observation: None,
            behaviour: None,
            indirect: None,
        }
    }

    #[test]
    fn what_is_written_is_read_once_and_an_incomplete_line_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        assert!(read(&path).unwrap().is_none());
        let choice = Choice {
            profile: "adr".into(),
            tearing: Tearing::Words,
            others: OtherLines::Newest,
            lines: Vec::new(),
        };
        let chosen = CrashPoint::chosen(5, Some(choice));
        let trials = [trial(CrashPoint::program_order(4)), trial(chosen.clone())];
        let cause = Cause {
            cause_of: chosen,
            present: Vec::new(),
            absent: Vec::new(),
            stores: Some(1),
            lost_lines: Vec::new(),
            tests: 2,
        };
        let mut journal = Journal::create(&path, &head()).unwrap();
        for trial in trials.iter().chain(&trials) {
            journal.trial(trial).unwrap();
        }
        journal.cause(&cause).unwrap();
        let reads = ObservedReads::Unknown("it cannot run".into());
        journal.reads(&reads).unwrap();
        assert_eq!(read(&path).unwrap().unwrap().ending, None);
        let ending = CampaignEnding {
            end: CampaignEnd::Sufficient,
            proposed: 3,
            extent: Extent::default(),
            seconds: 0.5,
            exploration: None,
            shared_starts: None,
        };
        journal.ending(&ending).unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"event\":6,\"ki").unwrap();
        let entries = read(&path).unwrap().unwrap();
        assert_eq!((entries.head, entries.trials), (head(), trials.to_vec()));
        assert_eq!(entries.reads, Some(reads));
        assert_eq!(
            (entries.causes, entries.ending),
            (vec![cause], Some(ending))
        );
    }

    #[test]
    fn trials_that_are_taken_back_are_gone_unless_they_are_repeated() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let native = |event| trial(CrashPoint::program_order(event));
        let believed = |event| Trial {
            indirect: Some(IndirectVerdict::Known),
            ..native(event)
        };
        let mut journal = Journal::create(&path, &head()).unwrap();
        for trial in [native(1), believed(2), native(3), believed(4)] {
            journal.trial(&trial).unwrap();
        }
        journal.retract(2).unwrap();
        journal.trial(&native(4)).unwrap();
        journal.trial(&native(3)).unwrap();
        let entries = read(&path).unwrap().unwrap();
        assert_eq!(entries.trials, [native(1), native(3), native(4)]);
    }

    #[test]
    fn a_journal_of_another_version_is_refused_by_its_version() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        std::fs::write(&path, "{\"version\":1,\"trace\":[7,9]}\n").unwrap();
        let error = read(&path).unwrap_err();
        assert!(
            matches!(error, JournalError::OtherVersion { found: 1, .. }),
            "{error}"
        );
        std::fs::write(&path, "{}\n").unwrap();
        assert!(matches!(read(&path), Err(JournalError::NotAJournal { .. })));
    }
}
