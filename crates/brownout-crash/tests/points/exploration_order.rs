//! What the strategy `exhaustive` knows if it is cut off: every crash time has had its turn, and as many as possible are finished.

use std::collections::BTreeMap;

use brownout_crash::{CrashImage, RecordedRun, Scope, StrategyInfo, StrategyInput};
use brownout_model::{Profile, Tearing};
use brownout_recovery::{FirstRead, Observation, ReadBytes, Verdict};
use brownout_report::ExplorationCoverage;

use super::exhaustive::tried;
use super::traces::{BASE, Made, Numbers, Silent, clflush, store};

const LINE: u64 = 64;

/// A target whose recovery reads the first byte of each line, or others, in order, and fails if those of the last two lines differ.
struct Case {
    made: Made,
    lines: u64,
    /// Where recovery reads one byte each.
    reads: Vec<u64>,
}

/// What an exploration knows when it ends.
struct Explored {
    coverage: ExplorationCoverage,
    runs: usize,
    /// Whether recovery has failed.
    has_failed: bool,
    /// How many runs there were for each event at which the target crashes.
    by_event: BTreeMap<u64, usize>,
}

impl Case {
    fn new(lines: u64) -> Self {
        Self {
            made: Made::new(),
            lines,
            reads: (0..lines).map(|line| line * LINE).collect(),
        }
    }

    /// Stores to lines at one instruction, then flushes them at another.
    fn update(&mut self, pc: u64, lines: std::ops::Range<u64>, value: u8) {
        for line in lines.clone() {
            self.made.at(pc, store(BASE + line * LINE, &[value]));
        }
        for line in lines {
            self.made.at(pc + 1, clflush(BASE + line * LINE));
        }
    }

    fn recover(&self, image: &CrashImage) -> (bool, Vec<FirstRead>) {
        let content = image.files[0].as_ref().unwrap();
        let byte = |line: u64| {
            let mut byte = [0];
            content.read(line * LINE, &mut byte);
            byte[0]
        };
        let read = |&offset: &u64| FirstRead {
            file: 0,
            offset,
            len: 1,
        };
        let passes = byte(self.lines - 2) == byte(self.lines - 1);
        (passes, self.reads.iter().map(read).collect())
    }

    /// Explores with at most so many runs in all, and so many states at each failure point.
    fn explore(self, most_runs: usize, max_states: Option<u64>) -> Explored {
        let mut this = self;
        this.made.exit();
        let made = std::mem::replace(&mut this.made, Made::new()).finish();
        let run = RecordedRun::new(made.path(), made.selection());
        let survey = run
            .survey(Scope::default(), &mut Numbers, &mut Silent)
            .unwrap();
        let mut strategy = (StrategyInfo::named("exhaustive").unwrap().start)(StrategyInput {
            run: &run,
            survey: &survey,
            symbols: &mut Numbers,
            occurrences: None,
            max_states,
            depth: 1,
            suspects: &[],
            profile: Profile::ADR,
            tearing: Tearing::Whole,
            memory: None,
            explored: None,
        })
        .unwrap();
        let (mut runs, mut has_failed, mut by_event) = (0, false, BTreeMap::new());
        'all: loop {
            let wave = strategy.propose();
            if wave.is_empty() {
                break;
            }
            for proposed in wave {
                // A known failure is confirmed natively, and shows nothing.
                let is_confirmation = proposed.observed.iter().len() == 0;
                if !is_confirmation && runs == most_runs {
                    break 'all;
                }
                let image = run
                    .image_at(&proposed.point, &survey.files, &mut Silent)
                    .unwrap();
                let (passes, reads) = this.recover(&image);
                has_failed |= !passes;
                if !is_confirmation {
                    runs += 1;
                    *by_event.entry(proposed.point.event).or_default() += 1;
                }
                let observation = (!is_confirmation).then(|| Observation {
                    reads: Some(ReadBytes::of(&reads, &image.files)),
                    gaps: Vec::new(),
                    is_copy: false,
                    run_anew: None,
                    is_contradicted: false,
                    other_inputs: Vec::new(),
                    is_repeatable: false,
                    actions: None,
                });
                let verdict = match passes {
                    true => Verdict::Passed,
                    false => Verdict::Failed(1),
                };
                strategy.learn(&tried(proposed, verdict, observation));
            }
        }
        Explored {
            coverage: strategy.exploration().unwrap(),
            runs,
            has_failed,
            by_event,
        }
    }
}

/// Rounds over many lines, and then an update in two steps.
fn late_mistake() -> Case {
    let mut case = Case::new(26);
    for round in 1..=4 {
        case.update(1, 0..24, round);
    }
    case.update(3, 24..25, 1);
    case.update(5, 25..26, 1);
    case
}

#[test]
fn every_crash_time_is_tried_with_every_store_first_and_then_with_the_fewest() {
    let explored = late_mistake().explore(16, None);
    let ExplorationCoverage {
        crash_times,
        every_store,
        fewest_stores,
        ..
    } = explored.coverage;
    // Before the first flush of each update, and at the end.
    assert_eq!(crash_times.of, 7);
    assert_eq!((every_store.tried, every_store.of), (7, 7));
    assert_eq!((fewest_stores.tried, fewest_stores.of), (7, 7));
    assert!(explored.has_failed);
    let first = late_mistake().explore(7, None).coverage;
    assert_eq!(first.every_store.tried, 7, "one run a crash time is enough");
    let none = late_mistake().explore(0, None).coverage;
    assert_eq!((none.every_store.tried, none.fewest_stores.tried), (0, 0));
}

#[test]
fn failure_points_that_are_rare_do_not_wait_for_others() {
    let mut case = Case::new(32);
    for round in 1..=60 {
        case.update(1, 0..1, round);
        if round == 20 || round == 50 {
            case.update(u64::from(round), 1..2, round);
        }
    }
    let coverage = case.explore(8, None).coverage;
    assert_eq!(coverage.crash_times.of, 63);
    let states: Vec<u64> = coverage.points.iter().map(|point| point.states).collect();
    assert_eq!(states.len(), 3);
    assert!(states.iter().all(|&states| states > 0), "{states:?}");
}

#[test]
fn a_limit_of_states_leaves_both_ends_of_each_failure_point() {
    let explored = late_mistake().explore(usize::MAX, Some(8));
    assert!(explored.has_failed);
    let coverage = explored.coverage;
    assert_eq!(coverage.every_store.tried, 7);
    assert_eq!(coverage.fewest_stores.tried, 7);
    let states: Vec<u64> = coverage.points.iter().map(|point| point.states).collect();
    assert!(states.iter().all(|&states| states <= 8), "{states:?}");
    assert_eq!(states.iter().sum::<u64>(), explored.runs as u64);
    assert!(!coverage.is_exhaustive());
}

#[test]
fn crash_times_with_few_states_are_finished_before_one_with_many() {
    let case = || {
        let mut case = Case::new(32);
        // 512 states, which are all explored.
        case.update(1, 0..9, 1);
        for number in 0..20 {
            let line = 10 + number;
            case.update(10 + 2 * number, line..line + 1, 1);
        }
        case
    };
    let cut = case().explore(120, None).coverage;
    assert_eq!(cut.crash_times.of, 22);
    assert_eq!(cut.crash_times.tried, 21, "{:?}", cut.points);
    let all = case().explore(usize::MAX, None);
    assert!(all.coverage.is_exhaustive(), "{:?}", all.coverage);
    // Each state of the first update, and one more for each of the others; the last state of each is the first of the next.
    assert_eq!(all.runs, 512 + 20);
}

#[test]
fn crash_times_that_are_sampled_share_the_samples_of_their_failure_point() {
    let mut case = Case::new(14);
    for round in 1..=12 {
        case.update(1, 0..12, round);
    }
    let explored = case.explore(usize::MAX, None);
    let coverage = explored.coverage;
    assert_eq!(coverage.crash_times.of, 13);
    assert_eq!(coverage.crash_times.tried, 1, "the end has one state");
    let sampled: u64 = coverage.points.iter().map(|point| point.sampled).sum();
    assert_eq!(sampled, 12);
    let runs: Vec<usize> = explored.by_event.values().copied().collect();
    assert_eq!(
        runs.len(),
        12,
        "the end is the state with every store of the last"
    );
    assert!(runs.iter().all(|&runs| runs >= 30), "{runs:?}");
    // 12 times 2^12 states.
    let gap = &coverage.gaps[0];
    assert!(gap.contains("at 12 of 13 crash times"), "{gap}");
    assert!(gap.ends_with("of about 10^4.7"), "{gap}");
}

#[test]
fn a_line_that_is_read_byte_by_byte_has_no_more_behaviours_than_states() {
    let mut case = Case::new(16);
    for byte in 0..12 {
        case.made.at(1, store(BASE + byte, &[1]));
    }
    // Recovery does not look at the many states of other lines.
    case.update(2, 1..14, 1);
    case.made.at(4, clflush(BASE));
    case.reads = (0..12).collect();
    let explored = case.explore(usize::MAX, None);
    assert!(explored.coverage.is_exhaustive(), "{:?}", explored.coverage);
    assert_eq!(explored.runs, 13);
}
