//! Update behaviours that earlier runs have tested, so that a later run tests only others.
//!
//! A behaviour is remembered by its shape in names, by its *code* and by the circumstances. The code of a behaviour is, for each store
//! between its first store and the time when all of its stores are guaranteed, the source line of the store, and where it is guaranteed.
//! Source lines count by their text and function, not by their number. A behaviour is left out if one with
//! the same circumstances has passed that represents it and whose code includes all of its code. One that has failed is always tested
//! again.
//!
//! Can miss: mistakes that a change brings which alters no such line, no field, no order, and not recovery: if a value is
//! computed differently elsewhere, for example.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::strategy::behaviour_strategy;
use crate::test_configuration::{TestConfiguration, TraceIdentity};
use crate::update_behaviour::{ComparableShape, NamedShape, ShapeComparison};

/// What identifies a piece of code that a behaviour runs through: digests of source lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CodeDigest(pub u64);

/// An update behaviour that was tested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestedBehaviour {
    /// Digest of what decides the verdicts.
    circumstances: String,
    shape: NamedShape,
    code: BTreeSet<CodeDigest>,
    /// The run that was tested.
    trace: TraceIdentity,
    /// Whether recovery passed after all crashes that were tried.
    passed: bool,
}

impl TestedBehaviour {
    /// A behaviour of a run and under circumstances that [`TestedBehaviours::add`] adds.
    pub(crate) fn new(shape: NamedShape, code: BTreeSet<CodeDigest>, passed: bool) -> Self {
        Self {
            circumstances: String::new(),
            shape,
            code,
            trace: TraceIdentity::default(),
            passed,
        }
    }

    /// What is equal for the same behaviour, whatever the run.
    fn identity(&self) -> (String, NamedShape, BTreeSet<CodeDigest>) {
        (
            self.circumstances.clone(),
            self.shape.clone(),
            self.code.clone(),
        )
    }
}

/// Update behaviours that were tested.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TestedBehaviours(Vec<TestedBehaviour>);

impl TestedBehaviours {
    /// Those that count in a test of this configuration. What a test has remembered of its own trace does not count if it is resumed:
    /// its journal has the trials.
    pub fn under(&self, configuration: &TestConfiguration, is_resumed: bool) -> Self {
        let circumstances = circumstances(configuration);
        let counts = |known: &&TestedBehaviour| {
            let is_own = is_resumed && known.trace == configuration.trace;
            known.circumstances == circumstances && !is_own
        };
        Self(self.0.iter().filter(counts).cloned().collect())
    }

    /// Adds what a test of this configuration has shown. A new result replaces an older one of the same behaviour.
    pub fn add(&mut self, tested: Vec<TestedBehaviour>, configuration: &TestConfiguration) {
        let circumstances = circumstances(configuration);
        let tested = tested.into_iter().map(|new| TestedBehaviour {
            circumstances: circumstances.clone(),
            trace: configuration.trace,
            ..new
        });
        let mut places: HashMap<_, usize> = HashMap::new();
        let known = self.0.iter().enumerate();
        places.extend(known.map(|(place, known)| (known.identity(), place)));
        for new in tested {
            match places.entry(new.identity()) {
                Entry::Occupied(known) => self.0[*known.get()] = new,
                Entry::Vacant(place) => {
                    place.insert(self.0.len());
                    self.0.push(new);
                }
            }
        }
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Digest of what decides the verdicts of a test apart from the run: recovery and the programs that it starts, the model, and which
/// crashes are tried.
fn circumstances(configuration: &TestConfiguration) -> String {
    let mut same = TestConfiguration {
        strategy: behaviour_strategy(),
        trace: TraceIdentity::default(),
        occurrences: None,
        ..configuration.clone()
    };
    // The programs in it are compared by their content.
    same.recovery.directory = PathBuf::new();
    let text = serde_json::to_vec(&same).expect("a configuration is plain data");
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&text))
}

/// Decides which behaviours earlier tests have covered.
#[derive(Debug, Default)]
pub(crate) struct EarlierTests<'m> {
    comparison: ShapeComparison,
    /// Those that passed.
    passed: Vec<(&'m TestedBehaviour, ComparableShape)>,
    /// For each piece of code, those that have it, as numbers.
    by_code: HashMap<CodeDigest, Vec<usize>>,
    failed: HashSet<(&'m NamedShape, &'m BTreeSet<CodeDigest>)>,
}

impl<'m> EarlierTests<'m> {
    pub(crate) fn new(memory: &'m TestedBehaviours) -> Self {
        let mut earlier = Self::default();
        for known in &memory.0 {
            if !known.passed {
                earlier.failed.insert((&known.shape, &known.code));
                continue;
            }
            let number = earlier.passed.len();
            for code in &known.code {
                earlier.by_code.entry(*code).or_default().push(number);
            }
            let shape = earlier.comparison.add(&known.shape);
            earlier.passed.push((known, shape));
        }
        earlier
    }

    /// Whether a behaviour needs no test.
    pub(crate) fn cover(&mut self, shape: &NamedShape, code: &BTreeSet<CodeDigest>) -> bool {
        if self.failed.contains(&(shape, code)) {
            return false;
        }
        let comparable = self.comparison.add(shape);
        let covers = |number: usize| {
            let (known, known_shape) = &self.passed[number];
            known.code.is_superset(code) && known_shape.represents(&comparable)
        };
        // Those that have all of its code have the piece that the fewest have.
        let with = code
            .iter()
            .map(|code| self.by_code.get(code).map_or(&[][..], Vec::as_slice));
        match with.min_by_key(|numbers| numbers.len()) {
            Some(rarest) => rarest.iter().copied().any(covers),
            None => (0..self.passed.len()).any(covers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update_behaviour::NamedShape;

    fn shape(fields: &[&str]) -> NamedShape {
        let update = |field: &&str| format!(r#"{{"path":["{field}"],"start":0,"end":1}}"#);
        let updates: Vec<String> = fields.iter().map(update).collect();
        let updates = updates.join(",");
        let text = format!(r#"{{"type":"entry","size":64,"updates":[{updates}]}}"#);
        serde_json::from_str(&text).expect("it is a shape")
    }

    fn code(lines: &[u64]) -> BTreeSet<CodeDigest> {
        lines.iter().copied().map(CodeDigest).collect()
    }

    fn memory(tested: Vec<(&[&str], &[u64], bool)>) -> TestedBehaviours {
        let tested = tested.into_iter();
        let tested = tested.map(|(fields, lines, passed)| {
            TestedBehaviour::new(shape(fields), code(lines), passed)
        });
        TestedBehaviours(tested.collect())
    }

    #[test]
    fn what_a_tested_behaviour_represents_is_covered_if_no_code_is_new() {
        let memory = memory(vec![(&["key", "valid"], &[1, 2, 3], true)]);
        let mut earlier = EarlierTests::new(&memory);
        assert!(earlier.cover(&shape(&["key", "valid"]), &code(&[1, 2, 3])));
        assert!(earlier.cover(&shape(&["valid"]), &code(&[2])));
        assert!(!earlier.cover(&shape(&["valid"]), &code(&[2, 4])));
        assert!(!earlier.cover(&shape(&["key", "next"]), &code(&[1])));
    }

    #[test]
    fn a_behaviour_that_failed_is_not_covered_by_one_that_passed() {
        let memory = memory(vec![
            (&["key", "valid"], &[1, 2], true),
            (&["valid"], &[2], false),
        ]);
        let mut earlier = EarlierTests::new(&memory);
        assert!(!earlier.cover(&shape(&["valid"]), &code(&[2])));
        assert!(earlier.cover(&shape(&["valid"]), &code(&[1])));
    }

    fn configuration(command: &str, started: u64) -> TestConfiguration {
        TestConfiguration {
            version: 0,
            strategy: behaviour_strategy(),
            trace: TraceIdentity { started, bytes: 1 },
            patterns: Vec::new(),
            recovery: brownout_recovery::Recovery::new(command, "/"),
            granularity: Default::default(),
            profile: "adr".to_owned(),
            tearing: Default::default(),
            occurrences: None,
            depth: 1,
            after: None,
            operations: Vec::new(),
            from_start: false,
            within: Vec::new(),
            time_limit: None,
            expected: String::new(),
            programs: String::new(),
        }
    }

    #[test]
    fn the_last_result_of_a_behaviour_counts() {
        let mut memory = TestedBehaviours::default();
        let result = |passed| vec![TestedBehaviour::new(shape(&["valid"]), code(&[1]), passed)];
        let is_covered = |memory: &TestedBehaviours| {
            EarlierTests::new(memory).cover(&shape(&["valid"]), &code(&[1]))
        };
        for (started, passed) in [(1, true), (2, false), (3, true)] {
            memory.add(result(passed), &configuration("./check", started));
            assert_eq!((memory.len(), is_covered(&memory)), (1, passed));
        }
    }

    #[test]
    fn only_the_same_recovery_counts_and_not_the_test_that_is_resumed() {
        let mut memory = TestedBehaviours::default();
        let tested = TestedBehaviour::new(shape(&["valid"]), code(&[1]), true);
        memory.add(vec![tested], &configuration("./check", 1));
        let count = |command, started, is_resumed| {
            let configuration = configuration(command, started);
            memory.under(&configuration, is_resumed).len()
        };
        assert_eq!(count("./check", 1, false), 1);
        assert_eq!(count("./check", 2, true), 1);
        assert_eq!(count("./check", 1, true), 0);
        assert_eq!(count("./check --all", 1, false), 0);
    }
}
