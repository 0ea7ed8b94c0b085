//! The test cases that are kept, in memory and on disk, and which of them is mutated next.
//!
//! On disk the inputs are a queue as AFL has it: a file for each, whose name begins with `id:`. A list beside it says on which images they
//! start, and what their examination has come to. Its lines are appended; of a test case the last one counts. A line that is cut off,
//! because this process was killed or the disk was full, is ignored, and removed before others are appended.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use libafl_bolts::rands::Rand;

use crate::appended_lines;
use crate::error::FuzzError;
use crate::examination::CaseExamination;
use crate::feedback::Novelty;
use crate::image_store::write_atomically;
use crate::test_case::{ListedCase, TestCase};

/// The folder of inputs in the results directory.
pub const FOLDER: &str = "corpus";
/// The list of test cases.
const LIST: &str = "cases.jsonl";

/// All test cases that are kept.
#[derive(Debug)]
pub struct Corpus {
    out: PathBuf,
    cases: Vec<TestCase>,
    /// The lines of the list, by number.
    listed: BTreeMap<u64, ListedCase>,
    list: File,
    next: u64,
    disk: u64,
    /// How many are not the same in each execution.
    unstable: u64,
}

impl Corpus {
    pub fn create(out: &Path) -> Result<Self, FuzzError> {
        let folder = out.join(FOLDER);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| FuzzError::Write { path, source }
        };
        fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let list = out.join(LIST);
        Ok(Self {
            list: appended_lines::open(&list).map_err(failed(&list))?,
            out: out.to_owned(),
            cases: Vec::new(),
            listed: BTreeMap::new(),
            next: 0,
            disk: 0,
            unstable: 0,
        })
    }

    /// The test cases of an earlier campaign in the directory, with their inputs.
    pub fn listed(out: &Path) -> Result<Vec<(ListedCase, Vec<u8>)>, FuzzError> {
        let path = out.join(LIST);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(FuzzError::Read { path, source }),
            Ok(text) => text,
        };
        let mut cases: Vec<(ListedCase, Vec<u8>)> = Vec::new();
        for line in text.split(|&byte| byte == b'\n') {
            let Ok(case) = serde_json::from_slice::<ListedCase>(line) else {
                continue;
            };
            let input = out.join(FOLDER).join(&case.input);
            let is_name = !case.input.contains('/');
            match fs::read(&input) {
                Ok(bytes) if is_name => {
                    cases.retain(|(known, _)| known.number != case.number);
                    cases.push((case, bytes));
                }
                // The user may remove inputs.
                _ => {}
            }
        }
        // Those that were examined are listed once more. A test case comes after the one that it, or its image, comes from.
        cases.sort_by_key(|(case, _)| case.number);
        Ok(cases)
    }

    /// The number of the next test case.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Keeps a test case. `how` is what it was made by.
    pub fn add(&mut self, case: TestCase, how: &str, elapsed: Duration) -> Result<(), FuzzError> {
        let number = case.number;
        let source = case.parent.map(|parent| format!(",src:{parent:06}"));
        let mark = match case.novelty {
            Novelty::Transition => ",+pm",
            _ => "",
        };
        let name = format!(
            "id:{number:06}{},time:{},op:{how}{mark}",
            source.unwrap_or_default(),
            elapsed.as_millis()
        );
        let path = self.out.join(FOLDER).join(&name);
        write_atomically(&path, &case.input)?;
        self.list(ListedCase {
            number,
            input: name,
            image: case.image,
            novelty: case.novelty,
            parent: case.parent,
            found_after: elapsed.as_secs_f64(),
            is_stable: case.is_stable,
            examination: None,
        })?;
        self.disk += case.input.len() as u64;
        self.keep(case);
        Ok(())
    }

    fn keep(&mut self, case: TestCase) {
        self.next = self.next.max(case.number + 1);
        self.unstable += u64::from(!case.is_stable);
        self.cases.push(case);
    }

    /// What the list says about the test cases of earlier processes. They are kept when they have run again.
    pub fn remember<'l>(&mut self, listed: impl Iterator<Item = &'l ListedCase>) {
        for case in listed {
            self.next = self.next.max(case.number + 1);
            self.listed.insert(case.number, case.clone());
        }
    }

    /// Keeps a test case that is listed.
    pub fn keep_listed(&mut self, case: TestCase) {
        self.disk += case.input.len() as u64;
        self.keep(case);
    }

    /// Notes what the examination of a test case has come to.
    pub fn mark_examined(
        &mut self,
        number: u64,
        examination: CaseExamination,
    ) -> Result<(), FuzzError> {
        match self.listed.get(&number) {
            Some(case) => self.list(ListedCase {
                examination: Some(examination),
                ..case.clone()
            }),
            None => Ok(()),
        }
    }

    /// The test cases that were examined, and what that has come to.
    pub fn examinations(&self) -> impl Iterator<Item = (u64, &CaseExamination)> {
        let cases = self.listed.values();
        cases.filter_map(|case| Some((case.number, case.examination.as_ref()?)))
    }

    /// Adds a line to the list.
    fn list(&mut self, case: ListedCase) -> Result<(), FuzzError> {
        let path = self.out.join(LIST);
        let mut line = serde_json::to_vec(&case).map_err(|error| FuzzError::Malformed {
            path: path.clone(),
            why: error.to_string(),
        })?;
        line.push(b'\n');
        let number = case.number;
        appended_lines::append(&mut self.list, &line)
            .map_err(|source| FuzzError::Write { path, source })?;
        self.listed.insert(number, case);
        Ok(())
    }

    /// Chooses a test case to mutate.
    pub fn choose(&mut self, rand: &mut impl Rand) -> Option<&TestCase> {
        let total: f64 = self.cases.iter().map(TestCase::weight).sum();
        let mut left = rand.next_float() * total;
        let last = self.cases.len().checked_sub(1)?;
        let at = self.cases.iter().position(|case| {
            left -= case.weight();
            left <= 0.0
        });
        let case = self.cases.get_mut(at.unwrap_or(last))?;
        case.times_chosen += 1;
        Some(case)
    }

    pub fn cases(&self) -> &[TestCase] {
        &self.cases
    }

    pub fn case(&self, number: u64) -> Option<&TestCase> {
        self.cases.iter().find(|case| case.number == number)
    }

    /// Bytes of all inputs.
    pub fn disk(&self) -> u64 {
        self.disk
    }

    pub fn unstable(&self) -> u64 {
        self.unstable
    }
}

#[cfg(test)]
mod tests {
    use libafl_bolts::rands::StdRand;

    use super::*;
    use crate::image::ImageId;

    fn case(number: u64, input: &str, novelty: Novelty) -> TestCase {
        TestCase {
            number,
            input: input.into(),
            image: ImageId(7),
            novelty,
            parent: number.checked_sub(1),
            transitions: Vec::new(),
            edges: Vec::new(),
            is_stable: true,
            times_chosen: 0,
        }
    }

    #[test]
    fn test_cases_are_listed_again_and_a_line_that_is_cut_off_is_ignored() {
        let out = tempfile::tempdir().unwrap();
        let mut corpus = Corpus::create(out.path()).unwrap();
        let second = Duration::from_secs(1);
        let one = case(0, "set a", Novelty::Transition);
        corpus.add(one, "seed", second).unwrap();
        let two = case(1, "del a", Novelty::Code);
        corpus.add(two, "havoc", second).unwrap();
        let list = out.path().join(LIST);
        corpus.mark_examined(0, CaseExamination::default()).unwrap();
        let mut text = fs::read(&list).unwrap();
        text.extend(b"{\"number\":2,\"inp");
        fs::write(&list, text).unwrap();
        let mut corpus = Corpus::create(out.path()).unwrap();
        let three = case(3, "get a", Novelty::Code);
        corpus.add(three, "havoc", second).unwrap();
        let listed = Corpus::listed(out.path()).unwrap();
        let inputs: Vec<&[u8]> = listed.iter().map(|(_, input)| &input[..]).collect();
        assert_eq!(inputs, [b"set a", b"del a", b"get a"]);
        assert_eq!(listed[0].0.image, ImageId(7));
        assert!(listed[0].0.examination.is_some());
        let names = fs::read_dir(out.path().join(FOLDER)).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names[0], "id:000000,time:1000,op:seed,+pm");
        assert_eq!(names[1], "id:000001,src:000000,time:1000,op:havoc");
    }

    #[test]
    fn a_test_case_without_its_crashes_tested_is_open_if_they_are_to_be() {
        let out = tempfile::tempdir().unwrap();
        let mut corpus = Corpus::create(out.path()).unwrap();
        let one = case(0, "set a", Novelty::Transition);
        corpus.add(one, "seed", Duration::ZERO).unwrap();
        assert!(corpus.listed[&0].is_open(false));
        corpus.mark_examined(0, CaseExamination::default()).unwrap();
        assert!(!corpus.listed[&0].is_open(false) && corpus.listed[&0].is_open(true));
    }

    #[test]
    fn test_cases_with_new_paths_are_chosen_more_often() {
        let out = tempfile::tempdir().unwrap();
        let mut corpus = Corpus::create(out.path()).unwrap();
        corpus.keep(case(0, "a", Novelty::Code));
        corpus.keep(case(1, "b", Novelty::Transition));
        let mut rand = StdRand::with_seed(1);
        for _ in 0..60 {
            corpus.choose(&mut rand).unwrap();
        }
        let times = |number| corpus.case(number).unwrap().times_chosen;
        assert!(times(1) > 2 * times(0) && times(0) > 0, "{}", times(0));
    }
}
