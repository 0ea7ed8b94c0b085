//! What the strategy `representative` proposes for small traces: the states that a crash can leave of an update, and nothing else.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use brownout_crash::{
    CrashImage, Extent, ImageBuilder, ProposedCrash, RecordedRun, Scope, StrategyInfo,
    StrategyInput, Survey, TestedBehaviours,
};
use brownout_model::{Profile, Tearing};
use brownout_recovery::Verdict;
use proptest::prelude::*;

use super::exhaustive::tried;
use super::traces::{BASE, Made, Numbers, Silent, flush, locked_store, nt_store, sfence, store};

/// The image of a crash, which the model must allow.
pub fn image_of(run: &RecordedRun, survey: &Survey, crash: &ProposedCrash) -> CrashImage {
    let image = run.image_at(&crash.point, &survey.files, &mut Silent);
    image.expect("a crash can leave what is proposed")
}

/// Proposes all crashes for a trace; `recovers` says whether recovery passes on an image.
pub fn test(made: &Made, recovers: impl FnMut(&CrashImage) -> bool) -> Vec<(ProposedCrash, bool)> {
    test_with("representative", Tearing::Whole, made, recovers).crashes
}

/// What a strategy has done.
pub struct Tested {
    /// What it proposed, and whether recovery passed.
    pub crashes: Vec<(ProposedCrash, bool)>,
    pub extent: Extent,
    /// How many behaviours are to be remembered.
    pub decided: usize,
}

pub fn test_with(
    strategy: &str,
    tearing: Tearing,
    made: &Made,
    mut recovers: impl FnMut(&CrashImage) -> bool,
) -> Tested {
    let run = RecordedRun::new(made.path(), made.selection());
    let survey = run.survey(Scope::default(), &mut Numbers, &mut Silent);
    let survey = survey.unwrap();
    let mut strategy = (StrategyInfo::named(strategy).unwrap().start)(StrategyInput {
        run: &run,
        survey: &survey,
        symbols: &mut Numbers,
        occurrences: None,
        max_states: None,
        depth: 1,
        suspects: &[],
        profile: Profile::ADR,
        tearing,
        memory: Some(&TestedBehaviours::default()),
        explored: None,
    })
    .unwrap();
    let (mut crashes, mut trials) = (Vec::new(), Vec::new());
    loop {
        assert!(
            strategy
                .prepare(&mut Numbers, &mut Silent)
                .unwrap()
                .is_continue()
        );
        let wave = strategy.propose();
        if wave.is_empty() {
            return Tested {
                crashes,
                extent: strategy.extent(),
                decided: strategy.tested_behaviours(&trials).len(),
            };
        }
        for crash in wave {
            let passes = recovers(&image_of(&run, &survey, &crash));
            let verdict = match passes {
                true => Verdict::Passed,
                false => Verdict::Failed(1),
            };
            let trial = tried(crash.clone(), verdict, None);
            strategy.learn(&trial);
            trials.push(trial);
            crashes.push((crash, passes));
        }
    }
}

/// A byte of the first pool.
pub fn byte(image: &CrashImage, offset: u64) -> u8 {
    let mut byte = [0];
    let content = image.files[0].as_ref().unwrap();
    content.read(offset, &mut byte);
    byte[0]
}

/// Fields in lines of their own.
const A: u64 = 0;
const B: u64 = 64;
const C: u64 = 128;
const D: u64 = 192;

/// The fields that are there in each image that is tried.
fn states(made: &Made) -> BTreeSet<String> {
    let mut states = BTreeSet::new();
    test(made, |image| {
        let fields = [("A", A), ("B", B), ("C", C), ("D", D)];
        let present = fields.into_iter().filter(|&(_, at)| byte(image, at) != 0);
        states.insert(present.map(|(name, _)| name).collect());
        true
    });
    states
}

#[test]
fn figure_4_7_all_orders_of_an_update_are_tried() {
    let mut made = Made::new();
    made.at(1, store(BASE + A, &[1]));
    made.at(2, flush(BASE + A));
    made.at(3, sfence());
    for (pc, field) in [(4, B), (5, C), (6, D)] {
        made.at(pc, store(BASE + field, &[1]));
    }
    for field in [B, C, D] {
        made.at(7, flush(BASE + field));
    }
    made.at(8, sfence());
    made.exit();
    let expected = ["", "A", "AB", "ABC", "ABCD", "ABD", "AC", "ACD", "AD"];
    assert_eq!(states(&made.finish()), expected.map(String::from).into());
}

#[test]
fn figure_4_1_what_is_in_one_line_is_not_reordered() {
    let mut made = Made::new();
    made.at(1, store(BASE + A, &[1]));
    made.at(2, flush(BASE + A));
    made.at(3, sfence());
    made.at(4, store(BASE + B, &[1]));
    made.at(5, store(BASE + B + 8, &[1]));
    made.at(6, flush(BASE + B));
    made.at(7, sfence());
    made.exit();
    test(&made.finish(), |image| {
        let [a, b, c] = [A, B, B + 8].map(|at| byte(image, at));
        assert!(a >= b && b >= c, "{a} {b} {c}");
        true
    });
}

#[test]
fn a_field_that_is_never_flushed_is_lost_after_another_object_refers_to_it() {
    let mut made = Made::new();
    // The node, and much later the pointer to it.
    made.at(1, store(BASE + A, &[1]));
    for round in 0..5 {
        let other = BASE + 0x800 + 64 * round;
        made.at(2, store(other, &[1]));
        made.at(3, flush(other));
        made.at(4, sfence());
    }
    made.at(5, store(BASE + D, &[1]));
    made.at(6, flush(BASE + D));
    made.at(7, sfence());
    made.exit();
    let tried = test(&made.finish(), |image| {
        byte(image, D) == 0 || byte(image, A) == 1
    });
    assert!(tried.iter().any(|(_, passes)| !passes));
}

#[test]
fn what_fails_is_named_by_its_fields_and_compared_with_program_order() {
    let mut made = Made::new();
    made.at(1, store(BASE + A, &[1]));
    made.at(2, store(BASE + B, &[1]));
    let point = made.at(3, flush(BASE + A));
    made.at(4, flush(BASE + B));
    made.at(5, sfence());
    made.exit();
    let tried = test(&made.finish(), |image| {
        byte(image, B) == 0 || byte(image, A) == 1
    });
    let failed = tried.iter().find(|(_, passes)| !passes).unwrap();
    let behaviour = failed.0.behaviour.as_ref().unwrap();
    let fields = behaviour.updates.iter();
    let fields: Vec<(&str, bool)> = fields
        .map(|update| (&update.field[..], update.is_lost))
        .collect();
    assert_eq!(
        fields,
        [("object@0x0.+0x0", true), ("object@0x0.+0x40", false)]
    );
    let in_order = tried
        .iter()
        .filter(|(crash, _)| crash.point.is_in_program_order() && crash.point.event == point);
    assert_eq!(in_order.count(), 1);
}

/// Recovery copes with the loss of one of two copies, but not with that of both.
#[test]
fn several_lines_of_an_update_are_lost_together() {
    let mut made = Made::new();
    for (pc, field) in [(1, A), (2, B), (3, C)] {
        made.at(pc, store(BASE + field, &[1]));
    }
    for field in [A, B, C] {
        made.at(4, flush(BASE + field));
    }
    made.at(5, sfence());
    made.exit();
    let made = made.finish();
    for strategy in ["representative", "auto"] {
        let tested = test_with(strategy, Tearing::Whole, &made, |image| {
            byte(image, C) == 0 || byte(image, A) == 1 || byte(image, B) == 1
        });
        assert!(
            tested.crashes.iter().any(|(_, passes)| !passes),
            "{strategy}"
        );
    }
}

/// A slot is filled twice; only the second time, losing the store that marks it as empty does harm.
#[test]
fn an_object_that_was_updated_before_is_tried() {
    const USED: u64 = A;
    const VALUE: u64 = B;
    let mut made = Made::new();
    for value in [1, 2] {
        made.at(1, store(BASE + USED, &[0]));
        made.at(2, store(BASE + VALUE, &[value]));
        made.at(3, flush(BASE + VALUE));
        made.at(4, sfence());
        made.at(5, store(BASE + VALUE + 1, &[value]));
        made.at(6, flush(BASE + VALUE));
        made.at(7, sfence());
        made.at(8, store(BASE + USED, &[1]));
        made.at(9, flush(BASE + USED));
        made.at(10, sfence());
    }
    made.exit();
    let tried = test(&made.finish(), |image| {
        byte(image, USED) == 0 || byte(image, VALUE) == byte(image, VALUE + 1)
    });
    assert!(tried.iter().any(|(_, passes)| !passes));
}

#[test]
fn a_member_at_other_code_is_tried_although_its_representative_passes() {
    let mut made = Made::new();
    for entry in [0x000_u64, 0x200] {
        for (pc, field) in [(1, 0), (2, 64), (3, 128)] {
            made.at(pc, store(BASE + entry + field, &[1]));
            made.at(4, flush(BASE + entry + field));
            made.at(5, sfence());
        }
    }
    // Deletes: the count of entries is right only if this is persisted, and it never is.
    made.at(9, store(BASE + 0x280, &[2]));
    made.at(10, store(BASE + 0x800, &[1]));
    made.at(11, flush(BASE + 0x800));
    made.at(12, sfence());
    made.exit();
    let tried = test(&made.finish(), |image| {
        byte(image, 0x800) == 0 || byte(image, 0x280) == 2
    });
    assert!(tried.iter().any(|(_, passes)| !passes));
}

/// A field that is never flushed makes one update of the whole run: an early operation is tried all the same.
#[test]
fn all_code_of_an_update_that_never_ends_is_tried() {
    let mut made = Made::new();
    made.at(1, store(BASE + D, &[1]));
    // A delete, which does not order its stores.
    made.at(2, store(BASE + A, &[2]));
    made.at(3, store(BASE + B, &[2]));
    for field in [A, B] {
        made.at(4, flush(BASE + field));
    }
    made.at(5, sfence());
    // Many inserts, which do.
    for value in 3..30 {
        for (pc, field) in [(6, A), (7, B)] {
            made.at(pc, store(BASE + field, &[value]));
            made.at(8, flush(BASE + field));
            made.at(9, sfence());
        }
    }
    made.exit();
    let tested = test_with("representative", Tearing::Whole, &made.finish(), |image| {
        byte(image, B) != 2 || byte(image, A) >= 2
    });
    assert!(tested.crashes.iter().any(|(_, passes)| !passes));
    // Not all guarantees of the inserts are.
    let extent = tested.extent;
    assert_eq!((extent.behaviours, extent.behaviours_sampled), (1, 1));
}

#[test]
fn a_wide_store_is_torn_if_stores_can_be_torn() {
    let mut made = Made::new();
    made.at(1, store(BASE + A, &[1; 16]));
    made.at(2, flush(BASE + A));
    made.at(3, sfence());
    made.at(4, locked_store(BASE + B, &[1; 16]));
    made.at(5, flush(BASE + B));
    made.at(6, sfence());
    made.exit();
    let made = made.finish();
    let torn = |tearing, field| {
        let mut halves = BTreeSet::new();
        test_with("representative", tearing, &made, |image| {
            halves.insert([byte(image, field), byte(image, field + 8)]);
            true
        });
        halves.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(torn(Tearing::Whole, A), [[0, 0], [1, 1]]);
    assert_eq!(torn(Tearing::Words, A), [[0, 0], [0, 1], [1, 0], [1, 1]]);
    assert_eq!(torn(Tearing::Words, B), [[0, 0], [1, 1]], "it is locked");
}

#[test]
fn a_behaviour_of_which_samples_pass_is_not_remembered() {
    let decided = |lines: u64| {
        let mut made = Made::new();
        for line in 0..lines {
            made.at(1 + line, store(BASE + 64 * line, &[1]));
        }
        for line in 0..lines {
            made.at(20, flush(BASE + 64 * line));
        }
        made.at(21, sfence());
        made.exit();
        let made = made.finish();
        let tested = test_with("representative", Tearing::Whole, &made, |_| true);
        let extent = tested.extent;
        (extent.behaviours, extent.behaviours_sampled, tested.decided)
    };
    assert_eq!(decided(5), (1, 0, 1));
    assert_eq!(decided(6), (1, 1, 0));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Store(u64, u8),
    NonTemporal(u64),
    Flush(u64),
    Fence,
}

fn step() -> impl Strategy<Value = (u64, Step)> {
    let step = prop_oneof![
        6 => (0..6_u64, 1..4_u8).prop_map(|(line, value)| Step::Store(line, value)),
        1 => (0..6_u64).prop_map(Step::NonTemporal),
        3 => (0..6_u64).prop_map(Step::Flush),
        1 => Just(Step::Fence),
    ];
    (1..6_u64, step)
}

/// A trace of the steps, each at one of a few instructions.
fn made(steps: &[(u64, Step)]) -> Made {
    let mut made = Made::new();
    for &(pc, step) in steps {
        match step {
            Step::Store(line, value) => {
                // Some lie in two lines.
                let start = if value == 3 { 60 } else { 0 };
                made.at(pc, store(BASE + 64 * line + start, &[value; 8]))
            }
            Step::NonTemporal(line) => made.at(pc, nt_store(BASE + 64 * line, &[9; 8])),
            Step::Flush(line) => made.at(pc, flush(BASE + 64 * line)),
            Step::Fence => made.at(pc, sfence()),
        };
    }
    made.exit();
    made.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// All states of all failure points are known: nothing else may be proposed, and nothing twice.
    #[test]
    fn every_image_can_be_left_by_a_crash(steps in proptest::collection::vec(step(), 1..16)) {
        let made = made(&steps);
        let run = RecordedRun::new(made.path(), made.selection());
        let survey = run.survey(Scope::default(), &mut Numbers, &mut Silent).unwrap();
        let mut builder = ImageBuilder::new(&survey.files, &run.selection).with_states(Profile::ADR);
        let mut possible = BTreeSet::new();
        let content = |image: &CrashImage| -> Vec<u8> {
            (0..0x200).map(|offset| byte(image, offset)).collect()
        };
        run.walk(|event, definitions| {
            let choices: Vec<_> = builder.choices(Tearing::Whole, definitions).collect();
            for choice in choices {
                let chosen = builder.chosen(&choice, event.index.0, definitions).unwrap();
                if chosen.image.files.first().is_some_and(Option::is_some) {
                    possible.insert((event.index.0, content(&chosen.image)));
                }
            }
            builder.apply(event, definitions);
            ControlFlow::Continue(())
        }).unwrap();
        let mut images = Vec::new();
        let tried = test(&made, |image| {
            images.push(content(image));
            true
        });
        let mut known = BTreeSet::new();
        for ((crash, _), image) in tried.iter().zip(images) {
            prop_assert!(known.insert(crash.point.clone()), "proposed twice: {:?}", crash.point);
            prop_assert!(possible.contains(&(crash.point.event, image)), "{:?}", crash.point);
        }
        // Every store that is made before a failure point is tried.
        let has_points = !survey.points.leaves().is_empty();
        prop_assert_eq!(has_points, !tried.is_empty());
    }
}
