//! The strategy `exhaustive` against the enumeration of all crash images, on small random runs and recoveries.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use brownout_crash::{
    CrashImage, Granularity, ImageBuilder, ProposedCrash, RecordedRun, Scope, StrategyInfo,
    StrategyInput, Survey, Trial,
};
use brownout_model::{Profile, Tearing, Wait};
use brownout_recovery::{FirstRead, Observation, ReadBytes, Verdict};
use brownout_report::ExplorationCoverage;
use brownout_trace::EventKind;
use proptest::prelude::*;

use super::traces::{
    BASE, Made, Numbers, Silent, clflush, flush, locked_store, nt_store, sfence, store,
};

#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Address, width and value.
    Store(u64, usize, u8),
    NonTemporal(u64, usize, u8),
    Locked(u64, u8),
    Flush(u64),
    FlushAtOnce(u64),
    Fence,
}

/// Addresses in four lines, some stores in two of them.
pub const SPAN: u64 = 256;
/// Bytes of the widest store.
const WIDEST: usize = 32;

pub fn step() -> impl Strategy<Value = Step> {
    let at = || (0..SPAN / 8).prop_map(|word| word * 8 + if word % 7 == 6 { 6 } else { 0 });
    // Wide stores start anywhere, so that some are not aligned.
    let wide = || {
        (
            0..SPAN - WIDEST as u64,
            prop_oneof![Just(8_usize), Just(16), Just(WIDEST)],
        )
    };
    let width = || prop_oneof![Just(1_usize), Just(4), Just(8)];
    prop_oneof![
        6 => (at(), width(), 0..3_u8).prop_map(|(at, width, value)| Step::Store(at, width, value)),
        1 => (at(), width(), 0..3_u8).prop_map(|(at, width, value)| Step::NonTemporal(at, width, value)),
        2 => (wide(), 0..3_u8).prop_map(|((at, width), value)| Step::Store(at, width, value)),
        1 => (wide(), 0..3_u8).prop_map(|((at, width), value)| Step::NonTemporal(at, width, value)),
        1 => (0..SPAN / 8, 0..3_u8).prop_map(|(word, value)| Step::Locked(word * 8, value)),
        3 => (0..SPAN).prop_map(Step::Flush),
        1 => (0..SPAN).prop_map(Step::FlushAtOnce),
        2 => Just(Step::Fence),
    ]
}

pub fn made(steps: &[Step]) -> Made {
    let mut made = Made::new();
    for (pc, &step) in (1..).zip(steps) {
        step.event(|event| made.at(pc, event));
    }
    made.exit();
    made.finish()
}

impl Step {
    /// Gives the event of the step to `take`.
    pub fn event<T>(self, take: impl FnOnce(EventKind<'_>) -> T) -> T {
        match self {
            Step::Store(at, width, value) => take(store(BASE + at, &[value; WIDEST][..width])),
            Step::NonTemporal(at, width, value) => {
                take(nt_store(BASE + at, &[value; WIDEST][..width]))
            }
            Step::Locked(at, value) => take(locked_store(BASE + at, &[value; 8])),
            Step::Flush(at) => take(flush(BASE + at)),
            Step::FlushAtOnce(at) => take(clflush(BASE + at)),
            Step::Fence => take(sfence()),
        }
    }

    /// The bytes that the step stores.
    pub fn stored(self) -> Option<(u64, Vec<u8>)> {
        match self {
            Step::Store(at, width, value) | Step::NonTemporal(at, width, value) => {
                Some((at, vec![value; width]))
            }
            Step::Locked(at, value) => Some((at, vec![value; 8])),
            Step::Flush(_) | Step::FlushAtOnce(_) | Step::Fence => None,
        }
    }
}

/// A recovery: what it reads next depends on what it has read.
#[derive(Clone, Debug)]
struct Program {
    /// For each number of reads before, and each residue of what was read last: address and width.
    reads: Vec<[(u64, u64); 3]>,
    /// What was read last modulo this decides whether recovery ends early.
    early: u8,
}

fn program() -> impl Strategy<Value = Program> {
    let read = (0..SPAN - 8, prop_oneof![Just(1_u64), Just(2), Just(8)]);
    let reads = proptest::collection::vec([read.clone(), read.clone(), read], 1..6);
    (reads, 2..5_u8).prop_map(|(reads, early)| Program { reads, early })
}

/// What a recovery has read, and how it ended.
type Transcript = (Vec<u8>, bool);

impl Program {
    /// Runs on an image.
    fn run(&self, image: &CrashImage) -> (Transcript, Vec<FirstRead>) {
        let content = image.files[0].as_ref().unwrap();
        let mut seen: Vec<u8> = Vec::new();
        let mut known: BTreeSet<u64> = BTreeSet::new();
        let mut first_reads: Vec<FirstRead> = Vec::new();
        let mut last = 0_u8;
        for read in &self.reads {
            let (offset, len) = read[usize::from(last % 3)];
            let mut bytes = vec![0; len as usize];
            content.read(offset, &mut bytes);
            let mut is_adjacent = false;
            for at in offset..offset + len {
                if !known.insert(at) {
                    is_adjacent = false;
                    continue;
                }
                match first_reads.last_mut().filter(|_| is_adjacent) {
                    Some(part) => part.len += 1,
                    None => first_reads.push(FirstRead {
                        file: 0,
                        offset: at,
                        len: 1,
                    }),
                }
                is_adjacent = true;
            }
            last = bytes.iter().fold(last, |sum, byte| sum.wrapping_add(*byte));
            seen.extend(bytes);
            if last % self.early == 1 {
                break;
            }
        }
        ((seen, last != 2), first_reads)
    }
}

/// What a crash does to caches, and to stores.
type Machine = (Profile, Tearing);

/// A run with more crash images than this is not enumerated.
const MOST_IMAGES: usize = 3_000;

/// The transcripts of recovery after every crash that the model allows, at any time from the first failure point on; `None` if
/// there are too many.
fn eager(
    run: &RecordedRun,
    survey: &Survey,
    (profile, tearing): Machine,
    program: &Program,
) -> Option<BTreeSet<Transcript>> {
    let mut transcripts = BTreeSet::new();
    let mut images = 0;
    let leaves = survey.points.leaves().iter();
    let first = leaves.map(|leaf| leaf.chosen()[0].event).min();
    let mut builder = ImageBuilder::new(&survey.files, &run.selection).with_states(profile);
    run.walk(|event, definitions| {
        let is_reached = first.is_some_and(|first| event.index >= first);
        let choices = builder.choices(tearing, definitions);
        let choices: Vec<_> = choices.take(MOST_IMAGES).filter(|_| is_reached).collect();
        images += choices.len();
        if images >= MOST_IMAGES {
            return ControlFlow::Break(());
        }
        for choice in choices {
            let chosen = builder.chosen(&choice, event.index.0, definitions).unwrap();
            transcripts.insert(program.run(&chosen.image).0);
        }
        builder.apply(event, definitions);
        ControlFlow::Continue(())
    })
    .unwrap();
    (images < MOST_IMAGES).then_some(transcripts)
}

/// The transcripts that the strategy finds, and how many runs it wanted for each.
fn explored(
    run: &RecordedRun,
    survey: &Survey,
    (profile, tearing): Machine,
    program: &Program,
) -> BTreeMap<Transcript, usize> {
    let mut strategy = (StrategyInfo::named("exhaustive").unwrap().start)(StrategyInput {
        run,
        survey,
        symbols: &mut Numbers,
        occurrences: None,
        max_states: None,
        depth: 1,
        suspects: &[],
        profile,
        tearing,
        memory: None,
        explored: None,
    })
    .unwrap();
    let mut transcripts = BTreeMap::new();
    loop {
        let wave = strategy.propose();
        if wave.is_empty() {
            let coverage = strategy.exploration().unwrap();
            assert!(coverage.is_exhaustive(), "{coverage:?}");
            return transcripts;
        }
        for proposed in wave {
            let image = run
                .image_at(&proposed.point, &survey.files, &mut Silent)
                .unwrap();
            let (transcript, first_reads) = program.run(&image);
            let passed = transcript.1;
            *transcripts.entry(transcript).or_default() += 1;
            let verdict = match passed {
                true => Verdict::Passed,
                false => Verdict::Failed(1),
            };
            let observation = Observation {
                reads: Some(ReadBytes::of(&first_reads, &image.files)),
                ..observation()
            };
            strategy.learn(&tried(proposed, verdict, Some(observation)));
        }
    }
}

pub fn tried(proposed: ProposedCrash, verdict: Verdict, observation: Option<Observation>) -> Trial {
    Trial {
        point: proposed.point,
        fails_anyway: proposed.fails_anyway,
        kind: proposed.kind,
        purpose: proposed.purpose,
        operation: None,
        image: String::new(),
        same_as: None,
        reached_from: None,
        verdict,
        seconds: 0.0,
        failure: None,
        observation,
        indirect: None,
        behaviour: proposed.behaviour.map(|tried| tried.number),
    }
}

/// Explores a run of three steps with recoveries that end in this way, or in another if they are repeated. Returns what was explored, and
/// the number of recoveries.
fn explored_with(
    verdict: &Verdict,
    repeated: &Verdict,
    observation: &Observation,
) -> (ExplorationCoverage, u32) {
    let made = made(&[Step::Store(0, 8, 1), Step::Flush(0), Step::Fence]);
    let run = RecordedRun::new(made.path(), made.selection());
    let survey = run
        .survey(Scope::default(), &mut Numbers, &mut Silent)
        .unwrap();
    let mut strategy = (StrategyInfo::named("exhaustive").unwrap().start)(StrategyInput {
        run: &run,
        survey: &survey,
        symbols: &mut Numbers,
        occurrences: None,
        max_states: None,
        depth: 1,
        suspects: &[],
        profile: Profile::ADR,
        tearing: Tearing::Whole,
        memory: None,
        explored: None,
    })
    .unwrap();
    let mut runs = 0;
    loop {
        let wave = strategy.propose();
        if wave.is_empty() {
            return (strategy.exploration().unwrap(), runs);
        }
        for proposed in wave {
            runs += 1;
            let verdict = match proposed.is_repeated {
                true => repeated,
                false => verdict,
            };
            let trial = tried(proposed, verdict.clone(), Some(observation.clone()));
            strategy.learn(&trial);
        }
    }
}

/// Of a run that has read nothing.
fn observation() -> Observation {
    Observation {
        reads: Some(ReadBytes::of(&[], &[])),
        gaps: Vec::new(),
        is_copy: false,
        run_anew: None,
        is_contradicted: false,
        other_inputs: Vec::new(),
        is_repeatable: false,
        actions: None,
    }
}

#[test]
fn a_run_whose_reads_are_unknown_makes_an_exploration_incomplete_for_that_reason_alone() {
    let unknown = Observation {
        reads: None,
        gaps: vec!["it ran out of time".to_owned()],
        ..observation()
    };
    let (coverage, runs) = explored_with(&Verdict::Hung, &Verdict::Hung, &unknown);
    assert_eq!(runs, 1, "nothing is known about other behaviours");
    assert_eq!(coverage.gaps, ["it ran out of time"]);
    assert!(!coverage.is_exhaustive());
}

#[test]
fn copies_that_disagree_make_an_exploration_incomplete_whatever_runs_show() {
    let passed = Verdict::Passed;
    let (coverage, _) = explored_with(&passed, &passed, &observation());
    assert!(coverage.is_exhaustive(), "{coverage:?}");
    let contradicted = Observation {
        run_anew: Some("it does not always read the same bytes next".to_owned()),
        is_contradicted: true,
        ..observation()
    };
    let (coverage, _) = explored_with(&passed, &passed, &contradicted);
    assert!(!coverage.is_exhaustive(), "{coverage:?}");
    assert!(coverage.gaps[0].contains("behaves differently after reading the same bytes"));
}

#[test]
fn a_recovery_that_uses_the_time_and_passes_is_repeated() {
    let with_inputs = |inputs: &[&str]| Observation {
        other_inputs: inputs.iter().map(|&input| input.to_owned()).collect(),
        ..observation()
    };
    let (passed, failed) = (Verdict::Passed, Verdict::Failed(1));
    let (coverage, runs) = explored_with(&passed, &failed, &with_inputs(&["other files"]));
    assert_eq!(runs, 1);
    assert!(coverage.is_exhaustive(), "{coverage:?}");
    let timed = with_inputs(&["other files", "the time"]);
    let (coverage, runs) = explored_with(&passed, &passed, &timed);
    assert_eq!(runs, 2);
    assert!(coverage.is_exhaustive(), "{coverage:?}");
    let (coverage, _) = explored_with(&passed, &failed, &timed);
    assert!(
        coverage.gaps[0].contains("it may depend on the time"),
        "{coverage:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(300), max_global_rejects: u32::MAX, ..ProptestConfig::default() })]

    #[test]
    fn every_behaviour_is_found_and_run_once(
        steps in proptest::collection::vec(step(), 1..14),
        program in program(),
        profile in prop::sample::select(Profile::ALL.to_vec()),
        tearing in prop::sample::select(vec![Tearing::Whole, Tearing::Words]),
    ) {
        let made = made(&steps);
        let run = RecordedRun::new(made.path(), made.selection());
        let granularity = match profile.cached {
            Wait::Nothing => Granularity::Store,
            _ => Granularity::Flush,
        };
        let scope = Scope { granularity, occurrences: 1, ..Scope::default() };
        let survey = run.survey(scope, &mut Numbers, &mut Silent).unwrap();
        let expected = eager(&run, &survey, (profile, tearing), &program);
        prop_assume!(expected.is_some());
        let found = explored(&run, &survey, (profile, tearing), &program);
        let transcripts: BTreeSet<Transcript> = found.keys().cloned().collect();
        prop_assert_eq!(Some(transcripts), expected);
        for (transcript, runs) in found {
            // A failure is confirmed at each crash that leads to it.
            prop_assert!(runs == 1 || !transcript.1, "{:?} was run {} times", transcript, runs);
        }
    }
}
