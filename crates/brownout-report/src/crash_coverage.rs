//! How much of what there is crash testing has tried. It is the object `crash` of `run.json`, and its sentence is among the
//! last lines of a run.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::quantity::{crashes, number_of};

/// What crash testing has tried of what there is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CrashCoverage {
    /// The strategy that chose the crashes.
    pub strategy: String,
    /// Of a test that is distributed, the part that was tested, such as `2/8`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Places in the code, with their calling contexts, before which a crash can happen.
    pub failure_points: Covered,
    /// How often all failure points were reached.
    pub occurrences: Covered,
    /// Findings of lint that a crash image could confirm, and for how many one was tried.
    pub suspects: Covered,
    /// For each reason why suspects were not tried, how many.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub suspects_not_tried: BTreeMap<String, u64>,
    /// States between stores, inside an update without a flush, fence or write-back.
    pub stores: Covered,
    /// Images in which stores persist in another order than that of the program.
    pub orders: Covered,
    /// Update behaviours that are tried in all orders: those that represent others, and those at code that no other reaches.
    pub behaviours: Covered,
    /// Those of them of which a crash can leave more states than were tried: samples.
    #[serde(skip_serializing_if = "is_zero")]
    pub behaviours_sampled: u64,
    /// How the types of objects were determined by which update behaviours are found, if they were looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stores_typed: Option<StoresTyped>,
    /// Whether update behaviours are to be tried and were not looked for, because the time limit was reached.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub behaviours_unknown: bool,
    /// Further ones that are left out because earlier runs have tested them.
    #[serde(skip_serializing_if = "is_zero")]
    pub behaviours_tested_earlier: u64,
    /// Of a test that explores all behaviours of recovery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exploration: Option<ExplorationCoverage>,
    /// Of a test whose recoveries have shared their starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_starts: Option<SharedStartCoverage>,
    /// Recoveries on different images.
    pub recoveries: u64,
    pub seconds: f64,
    /// In seconds.
    pub time_limit: Option<f64>,
    /// Whether the time limit ended testing.
    pub limit_reached: bool,
    /// Whether everything was tried that has to be, at least each failure point once. False for a part of a test.
    pub complete: bool,
    /// The command that tries more, if there is more to try.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continue_with: Option<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How often recoveries on crash images did not have to be run from the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SharedStartCoverage {
    /// Copies of a process that had waited, and so shared the start of an earlier recovery.
    pub copies: u64,
    /// Recoveries that were not run, because an earlier one had read the same bytes.
    pub known_paths: u64,
    /// Those of both that were run natively, too, to check that it makes no difference.
    pub checked: u64,
    /// Why recoveries were run from the beginning, though copies were wanted, and how often.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub run_anew: BTreeMap<String, u64>,
    /// Verdicts that were taken back, because others had turned out to be wrong.
    #[serde(skip_serializing_if = "is_zero")]
    pub retracted: u64,
    /// Why all further recoveries were run from the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

impl SharedStartCoverage {
    /// Adds what another part of the test, or a later run of it, has counted.
    pub fn add(&mut self, other: Self) {
        self.copies += other.copies;
        self.known_paths += other.known_paths;
        self.checked += other.checked;
        self.retracted += other.retracted;
        for (reason, count) in other.run_anew {
            *self.run_anew.entry(reason).or_default() += count;
        }
        self.ended = other.ended.or(self.ended.take());
    }
}

/// How far all behaviours of recovery were explored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExplorationCoverage {
    /// Failure points, and for how many of them all behaviours after a crash are known.
    pub failure_points: Covered,
    /// Times at which a crash can leave states of its own, and for how many of them all behaviours are known.
    pub crash_times: Covered,
    /// Crash times, and for how many of them it is known how recovery ends if every store is present.
    pub every_store: Covered,
    /// Crash times, and for how many of them it is known how recovery ends if every store is lost that can be.
    pub fewest_stores: Covered,
    /// Crashes inside recovery, and for how many of them all behaviours of the next recovery are known: first those of recoveries after
    /// a crash of the target, then those of recoveries after such a crash, and so on. Empty if only the target crashes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inside_recovery: Vec<Covered>,
    /// Recoveries that were run to learn what they read.
    pub executions: u64,
    /// Those of them that were copies of a process that had waited, and so shared the start of an earlier execution.
    pub copies: u64,
    /// Why executions were no copies, though copies were wanted, and how often.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub run_anew: BTreeMap<String, u64>,
    /// Behaviours that are possible and were not run.
    pub waiting: u64,
    /// Behaviours that needed no execution, because an exploration of another recording had shown them.
    #[serde(skip_serializing_if = "is_zero")]
    pub remembered: u64,
    /// Paths of recovery after a crash that needed no execution, because an earlier one had read the same bytes.
    pub known_paths: u64,
    /// Executions that were saved because several stores that recovery could have read from show it the same bytes.
    pub equal_bytes: u64,
    /// Executions that were saved because what recovery had read of a line before excludes other bytes.
    pub refinement: u64,
    /// The decimal logarithm of the number of states that a crash can leave; each would be a recovery if all were tried.
    pub states_log10: f64,
    /// Whether states are among them in which a store is present in part.
    pub torn_stores: bool,
    /// Why a behaviour may be missing, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
    /// The failure points.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<ExploredPoint>,
}

/// How far the behaviours of recovery after crashes at a failure point were explored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExploredPoint {
    /// Kind and line.
    pub failure_point: String,
    /// Its crash times, and for how many of them all behaviours are known.
    pub crash_times: Covered,
    /// Those of its crash times whose states were sampled, because there are too many.
    pub sampled: u64,
    /// States that were tried after crashes there. What they show holds at other failure points, too.
    pub states: u64,
}

impl ExploredPoint {
    /// Whether all behaviours are known.
    pub fn is_finished(&self) -> bool {
        self.crash_times.tried == self.crash_times.of
    }

    /// `finished`, or `3 of 8 crash times finished, 5 sampled; 200 states tried`.
    pub fn status(&self) -> String {
        if self.is_finished() {
            return "finished".to_owned();
        }
        let Covered { tried, of } = self.crash_times;
        let sampled = match self.sampled {
            0 => String::new(),
            sampled => format!(", {sampled} sampled"),
        };
        format!(
            "{tried} of {} finished{sampled}; {} tried",
            number_of(of, "crash time"),
            number_of(self.states, "state")
        )
    }
}

/// `2 of 2 failure points in all states (46 of 46 crash times, 120 of 120 crashes inside recovery, about 10^3.2 states, torn stores
/// included)`
impl fmt::Display for ExplorationCoverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (points, times) = (self.failure_points, self.crash_times);
        write!(
            f,
            "{} of {} in all states ({} of {}",
            points.tried,
            number_of(points.of, "failure point"),
            times.tried,
            number_of(times.of, "crash time"),
        )?;
        for (number, inside) in self.inside_recovery.iter().enumerate() {
            let which = match number {
                0 => String::new(),
                _ => format!(" {}", number + 1),
            };
            let (tried, all) = (inside.tried, crashes(inside.of));
            write!(f, ", {tried} of {all} inside recovery{which}")?;
        }
        let torn = match self.torn_stores {
            true => ", torn stores included",
            false => "",
        };
        write!(f, ", about 10^{:.1} states{torn})", self.states_log10)
    }
}

impl ExplorationCoverage {
    /// Whether all behaviours are known.
    pub fn is_exhaustive(&self) -> bool {
        let mut counts = self.inside_recovery.iter().chain([&self.crash_times]);
        counts.all(|covered| covered.tried == covered.of) && self.gaps.is_empty()
    }
}

/// For how many stores to persistent files the type of the object is known, by how it was determined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoresTyped {
    /// By debug information.
    pub debug_information: u64,
    /// By the call that allocated the object.
    pub allocation: u64,
    /// From the instructions and offsets that access the object.
    pub structural: u64,
    /// Stores without a type: no update behaviour has them.
    pub none: u64,
}

/// `object types are known for 210 of 220 stores: 200 by debug information, 10 by allocation`
impl fmt::Display for StoresTyped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            debug_information,
            allocation,
            structural,
            none,
        } = *self;
        let typed = debug_information + allocation + structural;
        let of = typed + none;
        let ending = if of == 1 { "" } else { "s" };
        write!(
            f,
            "object types are known for {typed} of {of} store{ending}"
        )?;
        let sources = [
            ("debug information", debug_information),
            ("allocation", allocation),
            ("pattern of accesses", structural),
        ];
        let known = sources.into_iter().filter(|(_, count)| *count > 0);
        for (number, (source, count)) in known.enumerate() {
            let joint = if number == 0 { ":" } else { "," };
            write!(f, "{joint} {count} by {source}")?;
        }
        Ok(())
    }
}

/// A part of a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Covered {
    pub tried: u64,
    pub of: u64,
}

impl Covered {
    pub fn new(tried: u64, of: u64) -> Self {
        Self {
            tried,
            of: of.max(tried),
        }
    }
}

/// `63 of 63 failure points, 210 of 917 occurrences, and 40 of 2113 states between stores`
impl fmt::Display for CrashCoverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(exploration) = &self.exploration {
            return exploration.fmt(f);
        }
        let counts = [
            ("", self.failure_points, "failure point", ""),
            (", ", self.occurrences, "occurrence", ""),
            (", ", self.suspects, "suspect", ""),
            (", ", self.behaviours, "update behaviour", ""),
            (", ", self.orders, "open order", ""),
            (", and ", self.stores, "state", " between stores"),
        ];
        for (before, covered, noun, after) in counts {
            // Failure points are named even if there are none.
            if !before.is_empty() && covered.of == 0 {
                continue;
            }
            let (tried, all) = (covered.tried, number_of(covered.of, noun));
            write!(f, "{before}{tried} of {all}{after}")?;
        }
        if self.behaviours_sampled > 0 {
            let (sampled, of) = (self.behaviours_sampled, self.behaviours.of);
            let ending = if of == 1 { "" } else { "s" };
            write!(f, " ({sampled} of {of} update behaviour{ending} sampled)")?;
        }
        match self.behaviours_tested_earlier {
            0 => {}
            1 => f.write_str(" (1 more update behaviour was tested by an earlier run)")?,
            more => write!(
                f,
                " ({more} more update behaviours were tested by earlier runs)"
            )?,
        }
        if let Some(part) = &self.part {
            write!(f, " in part {part}")?;
        }
        if self.behaviours_unknown {
            f.write_str(" (there was no time to look for update behaviours)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_not_is_not_named() {
        let mut coverage = CrashCoverage {
            failure_points: Covered::new(1, 1),
            occurrences: Covered::new(210, 917),
            ..CrashCoverage::default()
        };
        assert_eq!(
            coverage.to_string(),
            "1 of 1 failure point, 210 of 917 occurrences"
        );
        coverage.behaviours_tested_earlier = 4;
        assert_eq!(
            coverage.to_string(),
            "1 of 1 failure point, 210 of 917 occurrences (4 more update behaviours were tested by earlier runs)"
        );
        coverage.behaviours_tested_earlier = 0;
        coverage.behaviours = Covered::new(9, 9);
        coverage.behaviours_sampled = 2;
        assert_eq!(
            coverage.to_string(),
            "1 of 1 failure point, 210 of 917 occurrences, 9 of 9 update behaviours (2 of 9 update behaviours sampled)"
        );
        coverage.behaviours = Covered::default();
        coverage.behaviours_sampled = 0;
        coverage.stores = Covered::new(0, 3);
        assert!(
            coverage
                .to_string()
                .ends_with(", and 0 of 3 states between stores")
        );
        assert_eq!(
            CrashCoverage::default().to_string(),
            "0 of 0 failure points"
        );
        coverage.exploration = Some(ExplorationCoverage {
            failure_points: Covered::new(1, 1),
            crash_times: Covered::new(45, 46),
            states_log10: 3.21,
            ..ExplorationCoverage::default()
        });
        assert_eq!(
            coverage.to_string(),
            "1 of 1 failure point in all states (45 of 46 crash times, about 10^3.2 states)"
        );
        let exploration = coverage.exploration.as_mut().unwrap();
        exploration.torn_stores = true;
        assert!(
            coverage
                .to_string()
                .ends_with("about 10^3.2 states, torn stores included)")
        );
        let exploration = coverage.exploration.as_mut().unwrap();
        exploration.torn_stores = false;
        exploration.inside_recovery = vec![Covered::new(1, 1), Covered::new(0, 3)];
        assert_eq!(
            coverage.to_string(),
            "1 of 1 failure point in all states (45 of 46 crash times, 1 of 1 crash inside recovery, \
             0 of 3 crashes inside recovery 2, about 10^3.2 states)"
        );
    }

    #[test]
    fn sources_of_types_are_named_if_there_are_any() {
        let mut typed = StoresTyped {
            debug_information: 200,
            structural: 10,
            none: 10,
            ..StoresTyped::default()
        };
        assert_eq!(
            typed.to_string(),
            "object types are known for 210 of 220 stores: 200 by debug information, 10 by pattern of accesses"
        );
        typed = StoresTyped {
            none: 1,
            ..StoresTyped::default()
        };
        assert_eq!(typed.to_string(), "object types are known for 0 of 1 store");
    }
}
