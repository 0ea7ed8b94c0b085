//! The strategy `exhaustive` with recoveries that crash, against the enumeration of all crash images of the target and of each
//! recovery, on small random runs and recoveries.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use brownout_crash::{
    Choice, CrashImage, Granularity, ImageBuilder, ProposedCrash, RecordedRun, RecoveryRun, Scope,
    StrategyInfo, StrategyInput, Survey, Trial,
};
use brownout_model::{Profile, Tearing, Wait};
use brownout_recovery::{ByteRanges, FirstRead, Observation, ReadBytes, RecoveryActions, Verdict};
use brownout_trace::{EventKind, FileId};
use proptest::prelude::*;

use super::exhaustive::{SPAN, Step, made, step, tried};
use super::traces::{Made, Numbers, Silent};

/// What a recovery does next.
#[derive(Clone, Copy, Debug)]
enum Action {
    /// Address and width.
    Read(u64, u64),
    Step(Step),
}

/// A recovery: what it does next depends on what it has read.
#[derive(Clone, Debug)]
struct Program {
    /// For each number of actions before, and each residue of what was read.
    actions: Vec<[Action; 2]>,
    /// What was read modulo this decides whether recovery ends early.
    early: u8,
}

fn action() -> impl Strategy<Value = Action> {
    let width = prop_oneof![Just(1_u64), Just(8)];
    // Few places, so that recovery reads what it or the target has stored.
    let read = (0..SPAN / 16, width).prop_map(|(at, width)| Action::Read(at * 16, width));
    prop_oneof![3 => read, 4 => step().prop_map(Action::Step)]
}

fn program() -> impl Strategy<Value = Program> {
    let actions = proptest::collection::vec([action(), action()], 1..7);
    (actions, 2..5_u8).prop_map(|(actions, early)| Program { actions, early })
}

/// What a recovery has read, and how it ended.
type Transcript = (Vec<u8>, bool);

/// What a run on an image did.
struct Ran {
    transcript: Transcript,
    /// Bytes that were read for the first time and not written before, and how many steps came before.
    first_reads: Vec<(FirstRead, usize)>,
    steps: Vec<Step>,
}

impl Program {
    fn run(&self, image: &CrashImage) -> Ran {
        let mut content = content(image);
        let (mut seen, mut steps, mut first_reads) = (Vec::new(), Vec::new(), Vec::new());
        let mut known: BTreeSet<u64> = BTreeSet::new();
        let mut sum = 0_u8;
        for action in &self.actions {
            match action[usize::from(sum % 2)] {
                Action::Read(at, len) => {
                    let range = at as usize..(at + len) as usize;
                    let bytes = &content[range];
                    for at in (at..at + len).filter(|&at| known.insert(at)) {
                        let read = FirstRead {
                            file: 0,
                            offset: at,
                            len: 1,
                        };
                        first_reads.push((read, steps.len()));
                    }
                    sum = bytes.iter().fold(sum, |sum, byte| sum.wrapping_add(*byte));
                    seen.extend_from_slice(bytes);
                }
                Action::Step(step) => {
                    if let Some((at, bytes)) = step.stored() {
                        let range = at as usize..at as usize + bytes.len();
                        content[range].copy_from_slice(&bytes);
                        known.extend(at..at + bytes.len() as u64);
                    }
                    steps.push(step);
                }
            }
            if sum % self.early == 1 {
                break;
            }
        }
        Ran {
            transcript: (seen, sum % 4 != 3),
            first_reads,
            steps,
        }
    }
}

/// What an image holds where stores go.
fn content(image: &CrashImage) -> Vec<u8> {
    let mut content = vec![0; SPAN as usize];
    image.files[0].as_ref().unwrap().read(0, &mut content);
    content
}

/// Continues the trace of a recovery that has mapped the pool. Also returns the number of its first step.
fn trace_of(ran: &Ran, mut made: Made) -> (Made, u64) {
    for (pc, step) in (1..).zip(&ran.steps) {
        step.event(|event| made.at(pc, event));
    }
    let first = made.exit() - ran.steps.len() as u64;
    (made.finish(), first)
}

/// Runs with more crash images are not compared.
const MOST_IMAGES: usize = 1_500;

/// The images that recovery has run on, with the number of runs that may still crash.
#[derive(Default)]
struct KnownImages {
    images: BTreeSet<(usize, Vec<u8>)>,
    /// Whether some were left out.
    are_too_many: bool,
}

impl KnownImages {
    /// Whether recovery has to run on an image.
    fn add(&mut self, depth: usize, image: &CrashImage) -> bool {
        self.are_too_many |= self.images.len() == MOST_IMAGES;
        !self.are_too_many && self.images.insert((depth, content(image)))
    }

    /// Those of the choices that are tried.
    fn limit(&mut self, choices: impl Iterator<Item = Choice>) -> Vec<Choice> {
        let choices: Vec<Choice> = choices.take(MOST_IMAGES).collect();
        self.are_too_many |= choices.len() == MOST_IMAGES;
        choices
    }
}

/// The transcripts of recovery after every crash that the model allows, if so many runs crash, recoveries among them.
fn eager(
    image: &CrashImage,
    (depth, profile, tearing): (usize, Profile, Tearing),
    program: &Program,
    known: &mut KnownImages,
    transcripts: &mut BTreeSet<Transcript>,
) {
    if !known.add(depth, image) {
        return;
    }
    let ran = program.run(image);
    transcripts.insert(ran.transcript.clone());
    if depth == 1 {
        return;
    }
    let (made, _) = trace_of(&ran, Made::with_pool(&content(image)));
    let run = RecordedRun::new(made.path(), made.selection());
    let files = run.files(&mut Silent).unwrap();
    let mut builder = ImageBuilder::new(&files, &run.selection).with_states(profile);
    let mut is_mapped = false;
    run.walk(|event, definitions| {
        is_mapped |= matches!(event.kind, EventKind::Store { .. });
        let choices = known.limit(builder.choices(tearing, definitions));
        for choice in choices.into_iter().filter(|_| is_mapped) {
            let chosen = builder.chosen(&choice, event.index.0, definitions).unwrap();
            let next = (depth - 1, profile, tearing);
            eager(&chosen.image, next, program, known, transcripts);
        }
        builder.apply(event, definitions);
        ControlFlow::Continue(())
    })
    .unwrap();
}

/// The same, from every crash of the target on, at any time from the first failure point on; `None` if there are too many images.
fn eager_from_target(
    run: &RecordedRun,
    survey: &Survey,
    (depth, profile, tearing): (usize, Profile, Tearing),
    program: &Program,
) -> Option<BTreeSet<Transcript>> {
    let (mut known, mut transcripts) = (KnownImages::default(), BTreeSet::new());
    let leaves = survey.points.leaves().iter();
    let first = leaves.map(|leaf| leaf.chosen()[0].event).min();
    let mut builder = ImageBuilder::new(&survey.files, &run.selection).with_states(profile);
    run.walk(|event, definitions| {
        let choices = known.limit(builder.choices(tearing, definitions));
        let is_reached = first.is_some_and(|first| event.index >= first);
        for choice in choices.into_iter().filter(|_| is_reached) {
            let chosen = builder.chosen(&choice, event.index.0, definitions).unwrap();
            let crash = (depth, profile, tearing);
            eager(&chosen.image, crash, program, &mut known, &mut transcripts);
        }
        builder.apply(event, definitions);
        ControlFlow::Continue(())
    })
    .unwrap();
    (!known.are_too_many).then_some(transcripts)
}

/// What an engine shows of a run if these bytes are observed.
fn observation(ran: &Ran, image: &CrashImage, observed: &[ByteRanges]) -> Observation {
    // What an engine shows does not say what was in the pool: the same actions are possible on other images.
    let (made, first_step) = trace_of(ran, Made::with_unknown_pool());
    let trace = std::fs::read(made.path()).unwrap();
    let is_observed = |read: &FirstRead| observed[0].overlaps(read.offset..read.offset + read.len);
    let (wanted, others): (Vec<_>, Vec<_>) = ran
        .first_reads
        .iter()
        .copied()
        .partition(|(read, _)| is_observed(read));
    let mut other_reads = ByteRanges::exact();
    for (read, _) in others {
        other_reads.insert(read.offset..read.offset + read.len);
    }
    let reads: Vec<FirstRead> = wanted.iter().map(|(read, _)| *read).collect();
    let before = wanted.iter().map(|(_, steps)| first_step + *steps as u64);
    let files = vec![(FileId(0), 0)];
    let size = image.files[0].as_ref().unwrap().len();
    let mut actions = RecoveryActions::new(vec![Some(size)], before.collect(), files, trace);
    actions.other_reads = vec![other_reads];
    Observation {
        reads: Some(ReadBytes::of(&reads, &image.files)),
        gaps: Vec::new(),
        is_copy: false,
        run_anew: None,
        is_contradicted: false,
        other_inputs: Vec::new(),
        is_repeatable: false,
        actions: Some(actions),
    }
}

/// The image of a proposed crash. Recoveries that run again must do the same as those that were interrupted.
fn image_of(
    proposed: &ProposedCrash,
    run: &RecordedRun,
    survey: &Survey,
    program: &Program,
) -> CrashImage {
    let mut target = proposed.point.clone();
    let interruptions = std::mem::take(&mut target.interruptions);
    let image = run.image_at(&target, &survey.files, &mut Silent).unwrap();
    let recoveries = proposed.recoveries.iter().zip(&interruptions);
    recoveries.fold(image, |image, (recovery, interruption)| {
        let left = recovery.interrupted(&image, interruption, &survey.files);
        let again = observation(&program.run(&image), &image, &[ByteRanges::exact()]);
        let again = RecoveryRun::new(Arc::new(again.actions.unwrap()));
        let again = again.interrupted(&image, interruption, &survey.files);
        let left = left.unwrap().image;
        assert_eq!(content(&left), content(&again.unwrap().image));
        left
    })
}

/// The transcripts that the strategy finds, and how many runs it wanted for each; those that it repeats do not count. `trials` are those
/// of an earlier test, and get those of this one.
fn explored(
    run: &RecordedRun,
    survey: &Survey,
    (depth, profile, tearing): (usize, Profile, Tearing),
    program: &Program,
    is_all_observed: bool,
    trials: &mut Vec<Trial>,
) -> BTreeMap<Transcript, usize> {
    let mut strategy = (StrategyInfo::named("exhaustive").unwrap().start)(StrategyInput {
        run,
        survey,
        symbols: &mut Numbers,
        occurrences: None,
        max_states: None,
        depth,
        suspects: &[],
        profile,
        tearing,
        memory: None,
        explored: None,
    })
    .unwrap();
    let mut everything = ByteRanges::exact();
    everything.insert(0..SPAN);
    let mut transcripts = BTreeMap::new();
    trials.iter().for_each(|trial| strategy.learn(trial));
    loop {
        let wave = strategy.propose();
        if wave.is_empty() {
            let coverage = strategy.exploration().unwrap();
            assert!(coverage.is_exhaustive(), "{coverage:?}");
            return transcripts;
        }
        for proposed in wave {
            let image = image_of(&proposed, run, survey, program);
            let ran = program.run(&image);
            let observed = match is_all_observed {
                true => std::slice::from_ref(&everything),
                false => &proposed.observed[..],
            };
            let is_native = proposed.observed.is_empty();
            let shown = (!is_native).then(|| observation(&ran, &image, observed));
            let passed = ran.transcript.1;
            let runs: &mut usize = transcripts.entry(ran.transcript).or_default();
            *runs += usize::from(!proposed.is_repeated);
            let verdict = match passed {
                true => Verdict::Passed,
                false => Verdict::Failed(1),
            };
            let trial = tried(proposed, verdict, shown);
            strategy.learn(&trial);
            match trials.iter_mut().find(|known| known.point == trial.point) {
                Some(repeated) => *repeated = trial,
                None => trials.push(trial),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(300), ..ProptestConfig::default() })]

    #[test]
    fn every_behaviour_after_crashes_of_recoveries_is_found(
        steps in proptest::collection::vec(step(), 1..8),
        program in program(),
        profile in prop::sample::select(Profile::ALL.to_vec()),
        tearing in prop::sample::select(vec![Tearing::Whole, Tearing::Words]),
        depth in 2..4_usize,
        is_all_observed in any::<bool>(),
        kept in any::<prop::sample::Index>(),
    ) {
        let made = made(&steps);
        let run = RecordedRun::new(made.path(), made.selection());
        let granularity = match profile.cached {
            Wait::Nothing => Granularity::Store,
            _ => Granularity::Flush,
        };
        let scope = Scope { granularity, occurrences: 1, ..Scope::default() };
        let survey = run.survey(scope, &mut Numbers, &mut Silent).unwrap();
        let mut trials = Vec::new();
        let crash = (depth, profile, tearing);
        let expected = eager_from_target(&run, &survey, crash, &program);
        prop_assume!(expected.is_some());
        let expected = expected.unwrap();
        let found = explored(&run, &survey, crash, &program, is_all_observed, &mut trials);
        let transcripts: BTreeSet<Transcript> = found.keys().cloned().collect();
        prop_assert_eq!(&transcripts, &expected);
        for (transcript, runs) in found {
            // A failure is confirmed at each crash that leads to it. If less is observed, runs are repeated, also on other images.
            let is_once = runs == 1 || !transcript.1 || !is_all_observed;
            prop_assert!(is_once, "{:?} was run {} times", transcript, runs);
        }
        // A test that was killed knows some of the runs.
        trials.truncate(kept.index(trials.len() + 1));
        let resumed = explored(&run, &survey, crash, &program, is_all_observed, &mut trials);
        let transcripts: BTreeSet<Transcript> = resumed.into_keys().collect();
        prop_assert!(transcripts.is_subset(&expected), "{:?}", transcripts);
        let again = explored(&run, &survey, crash, &program, is_all_observed, &mut trials);
        // Nothing is run again but the confirmation of a failure.
        let has_run = again.iter().any(|((_, passed), runs)| *passed || *runs > 0);
        prop_assert!(!has_run || !is_all_observed, "{:?}", again);
    }
}
