//! What the strategy `auto` proposes for small random traces: each occurrence of each failure point, and each state
//! between stores; every one once, those that are required first. For suspects it proposes images that the model allows.

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

use brownout_crash::{
    ChosenImage, CrashPoint, Granularity, ImageBuilder, ImpossibleChoice, PointKind, RecordedRun,
    Scope, StrategyInfo, StrategyInput, Survey, Suspect, SuspectSite, SuspectStore, Suspicion,
    Trial, TrialPurpose,
};
use brownout_model::{Profile, Tearing};
use brownout_recovery::Verdict;
use brownout_trace::{AppPc, ContextId, EventIndex, ProcessId};
use proptest::prelude::*;

use super::traces::{BASE, Made, Numbers, Silent, flush, sfence, store};

#[derive(Clone, Copy, Debug)]
enum Step {
    Store(u64, u8),
    Flush(u64),
    Fence,
    Call,
    Return,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..4_u64, 1..4_u8).prop_map(|(line, value)| Step::Store(line, value)),
        3 => (0..4_u64).prop_map(Step::Flush),
        1 => Just(Step::Fence),
        1 => Just(Step::Call),
        1 => Just(Step::Return),
    ]
}

/// A trace of the steps, each at one of a few instructions.
fn made(steps: &[(u64, Step)]) -> Made {
    let mut made = Made::new();
    for &(pc, step) in steps {
        match step {
            Step::Store(line, value) => {
                // Some lie in two lines.
                let start = if value == 3 { 60 } else { 0 };
                made.at(pc, store(BASE + 64 * line + start, &[value; 8]));
            }
            Step::Flush(line) => {
                made.at(pc, flush(BASE + 64 * line));
            }
            Step::Fence => {
                made.at(pc, sfence());
            }
            Step::Call => made.call("operate"),
            Step::Return => made.returned("operate"),
        }
    }
    made.exit();
    made.finish()
}

fn scope(granularity: Granularity) -> Scope {
    Scope {
        granularity,
        occurrences: usize::MAX / 4,
        operations: vec![brownout_names::FunctionPattern::new("operate")],
        ..Scope::default()
    }
}

/// The events of all occurrences for which `wanted` holds.
fn occurrences(survey: &Survey, wanted: impl Fn(PointKind) -> bool) -> BTreeSet<u64> {
    let leaves = survey.points.leaves().iter();
    leaves
        .filter(|leaf| wanted(leaf.kind))
        .flat_map(|leaf| leaf.chosen())
        .map(|one| one.event.0)
        .collect()
}

fn site(pc: u64) -> SuspectSite {
    SuspectSite {
        process: ProcessId(1),
        pc: AppPc(pc),
        context: ContextId::ROOT,
    }
}

/// Lint may suspect each store and each fence.
fn suspects() -> Vec<Suspect> {
    let sites = (1..6).map(site);
    let suspicions = sites.flat_map(|site| {
        let stores = vec![SuspectStore {
            site,
            event: EventIndex(site.pc.0),
        }];
        let forever = site.pc.0 % 2 == 0;
        let lost = Suspicion::LostStore { stores, forever };
        [lost, Suspicion::OpenOrder(site)]
    });
    let suspects = suspicions.enumerate().map(|(number, suspicion)| Suspect {
        finding: number.to_string(),
        suspicion,
    });
    suspects.collect()
}

/// The image of a choice, which the model must allow.
fn chosen_image(
    run: &RecordedRun,
    survey: &Survey,
    point: &CrashPoint,
) -> Result<ChosenImage, ImpossibleChoice> {
    let builder = ImageBuilder::new(&survey.files, &run.selection);
    let mut builder = builder.with_states(Profile::ADR);
    let reader = run.walk(|event, definitions| {
        if event.index.0 >= point.event {
            return ControlFlow::Break(());
        }
        builder.apply(event, definitions);
        ControlFlow::Continue(())
    });
    let choice = point.choice.as_ref().unwrap();
    builder.chosen(choice, point.event, reader.unwrap().definitions())
}

/// Offset and bytes of a store that is lost.
type Lost = (u64, Vec<u8>);

/// The images with which `auto` tries the stores at one site, of which lint has seen `event`: each with its event and what it
/// loses.
fn images_losing(made: &Made, (pc, event): (u64, u64)) -> Vec<(u64, Vec<Lost>)> {
    let run = RecordedRun::new(made.path(), made.selection());
    let survey = run.survey(scope(Granularity::Flush), &mut Numbers, &mut Silent);
    let survey = survey.unwrap();
    let stores = vec![SuspectStore {
        site: site(pc),
        event: EventIndex(event),
    }];
    let suspects = [Suspect {
        finding: "0".to_owned(),
        suspicion: Suspicion::LostStore {
            stores,
            forever: false,
        },
    }];
    let strategy = (StrategyInfo::named("auto").unwrap().start)(StrategyInput {
        run: &run,
        survey: &survey,
        symbols: &mut Numbers,
        occurrences: None,
        max_states: None,
        depth: 1,
        suspects: &suspects,
        profile: Profile::ADR,
        tearing: Tearing::Whole,
        memory: None,
        explored: None,
    })
    .unwrap();
    let images = strategy.suspects()[0].images.iter();
    images
        .map(|point| {
            let lost = chosen_image(&run, &survey, point).unwrap().lost.into_iter();
            let lost = lost.map(|store| (store.offset, store.bytes));
            (point.event, lost.collect())
        })
        .collect()
}

#[test]
fn a_store_to_two_lines_is_tried_until_both_are_guaranteed() {
    let mut made = Made::new();
    let store_at = made.at(1, store(BASE + 56, &[1; 16]));
    made.at(2, flush(BASE));
    made.at(3, sfence());
    made.at(4, store(BASE + 256, &[2]));
    made.at(5, flush(BASE + 256));
    made.at(6, sfence());
    made.at(7, store(BASE + 320, &[3]));
    let late = made.at(8, flush(BASE + 320));
    made.exit();
    let images = images_losing(&made.finish(), (1, store_at));
    // What is stored at 4 is guaranteed, and half of the store is not.
    let second = (late, vec![(64, vec![1; 8])]);
    assert!(images.contains(&second), "{images:?}");
}

#[test]
fn either_line_of_a_store_is_lost_alone() {
    let mut made = Made::new();
    let store_at = made.at(1, store(BASE + 56, &[1; 16]));
    made.at(2, store(BASE + 256, &[2]));
    let point = made.at(3, flush(BASE + 256));
    made.exit();
    let images = images_losing(&made.finish(), (1, store_at));
    let (first, second) = ((56, vec![1; 8]), (64, vec![1; 8]));
    for lost in [
        vec![first.clone(), second.clone()],
        vec![first.clone()],
        vec![second.clone()],
    ] {
        assert!(images.contains(&(point, lost)), "{images:?}");
    }
}

/// The open orders that `auto` tries, each with its event and what it loses, and how many there are.
fn open_orders(made: &Made, occurrences: Option<usize>) -> (Vec<(u64, Vec<Lost>)>, u64) {
    let run = RecordedRun::new(made.path(), made.selection());
    let survey = run.survey(scope(Granularity::Flush), &mut Numbers, &mut Silent);
    let survey = survey.unwrap();
    let mut strategy = (StrategyInfo::named("auto").unwrap().start)(StrategyInput {
        run: &run,
        survey: &survey,
        symbols: &mut Numbers,
        occurrences,
        max_states: None,
        depth: 1,
        suspects: &[],
        profile: Profile::ADR,
        tearing: Tearing::Whole,
        memory: None,
        explored: None,
    })
    .unwrap();
    let mut orders = Vec::new();
    loop {
        let wave = strategy.propose();
        if wave.is_empty() {
            return (orders, strategy.extent().orders);
        }
        let with_losses = wave.iter().filter(|one| one.point.choice.is_some());
        orders.extend(with_losses.map(|one| {
            let lost = chosen_image(&run, &survey, &one.point).unwrap().lost;
            let lost = lost.into_iter().map(|store| (store.offset, store.bytes));
            (one.point.event, lost.collect())
        }));
    }
}

#[test]
fn a_line_is_lost_at_failure_points_and_between_the_stores_after_it() {
    let mut made = Made::new();
    made.at(1, store(BASE, &[1]));
    made.at(2, store(BASE + 64, &[2]));
    let between = made.at(3, store(BASE + 128, &[3]));
    let point = made.at(4, flush(BASE));
    made.exit();
    let made = made.finish();
    let (orders, count) = open_orders(&made, None);
    let (first, second) = (vec![(0, vec![1])], vec![(64, vec![2])]);
    let expected = [(point, first.clone()), (point, second), (between, first)];
    assert_eq!(orders[..3], expected, "{orders:?}");
    assert_eq!(count, orders.len() as u64);
    assert_eq!(open_orders(&made, Some(1)), (Vec::new(), 0));
}

#[test]
fn a_line_with_very_many_stores_to_lose_is_counted_and_not_lost() {
    let orders_after = |stores: u64| {
        let mut made = Made::new();
        for number in 0..stores {
            made.at(1, store(BASE, &number.to_le_bytes()));
        }
        made.at(2, store(BASE + 64, &[2]));
        made.at(3, store(BASE + 128, &[3]));
        made.at(4, flush(BASE + 128));
        made.exit();
        open_orders(&made.finish(), None)
    };
    let loses_first = |(_, lost): &(u64, Vec<Lost>)| lost.iter().any(|(offset, _)| *offset == 0);
    let (orders, count) = orders_after(2048);
    assert!(orders.iter().any(loses_first));
    assert_eq!(count, orders.len() as u64);
    let (fewer, same_count) = orders_after(2049);
    assert!(!fewer.is_empty() && !fewer.iter().any(loses_first));
    assert_eq!(same_count, count);
}

#[test]
fn orders_that_are_too_many_to_try_are_counted() {
    let mut made = Made::new();
    made.at(1, store(BASE, &[1]));
    // The first line is open all the time.
    let rounds: u64 = 6000;
    for round in 0..rounds {
        made.at(2, store(BASE + 64, &round.to_le_bytes()));
        made.at(3, flush(BASE + 64));
        made.at(4, sfence());
    }
    made.exit();
    let made = made.finish();
    let run = RecordedRun::new(made.path(), made.selection());
    let survey = run.survey(scope(Granularity::Flush), &mut Numbers, &mut Silent);
    let mut strategy = (StrategyInfo::named("auto").unwrap().start)(StrategyInput {
        run: &run,
        survey: &survey.unwrap(),
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
    let mut tried = 0;
    loop {
        let wave = strategy.propose();
        if wave.is_empty() {
            break;
        }
        let orders = wave
            .iter()
            .filter(|one| one.purpose == TrialPurpose::OpenOrder);
        tried += orders.count() as u64;
    }
    let count = strategy.extent().orders;
    assert!(tried < count && count >= rounds, "{tried} of {count}");
}

#[test]
fn the_store_that_lint_has_seen_is_lost_first() {
    let mut made = Made::new();
    let mut seen = 0;
    // Eight versions, each in a line of its own; the third is not flushed.
    for version in 0..8 {
        let line = BASE + 64 * version;
        let event = made.at(1, store(line, &[1; 8]));
        if version == 2 {
            seen = event;
        } else {
            made.at(2, flush(line));
        }
        made.at(3, sfence());
    }
    made.at(4, store(BASE + 128, &[2; 8]));
    made.at(5, flush(BASE + 128));
    made.at(6, sfence());
    made.exit();
    let images = images_losing(&made.finish(), (1, seen));
    assert_eq!(images[0].1, [(128, vec![1; 8])], "{images:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn everything_is_proposed_once_and_first_tries_come_first(
        steps in prop::collection::vec((1..6_u64, step()), 1..80),
        failing in prop::collection::hash_set(0..100_u64, 0..20),
    ) {
        let made = made(&steps);
        let run = RecordedRun::new(made.path(), made.selection());
        let survey = |scope| run.survey(scope, &mut Numbers, &mut Silent).unwrap();
        let points = occurrences(&survey(scope(Granularity::Flush)), |_| true);
        let stores = occurrences(&survey(scope(Granularity::Store)), |kind| kind == PointKind::Store);

        let once = survey(Scope { occurrences: 1, ..scope(Granularity::Flush) });
        let suspects = suspects();
        let mut strategy = (StrategyInfo::named("auto").unwrap().start)(StrategyInput {
            run: &run,
            survey: &once,
            symbols: &mut Numbers,
            occurrences: None,
            max_states: None,
            depth: 1,
            suspects: &suspects,
            profile: Profile::ADR,
            tearing: Tearing::Whole,
            memory: None,
            explored: None,
        }).unwrap();
        let extent = strategy.extent();
        prop_assert_eq!(extent.failure_points, once.points.leaves().len() as u64);
        prop_assert_eq!(extent.occurrences, points.len() as u64);
        prop_assert_eq!(extent.stores, stores.len() as u64);
        let orders = extent.orders as usize;
        let mut proposed = Vec::new();
        loop {
            let prepared = strategy.prepare(&mut Numbers, &mut Silent).unwrap();
            prop_assert!(prepared.is_continue());
            let wave = strategy.propose();
            if wave.is_empty() {
                break;
            }
            for proposal in wave {
                let passed = !failing.contains(&proposal.point.event);
                strategy.learn(&Trial {
                    point: proposal.point.clone(),
                    kind: proposal.kind,
                    purpose: proposal.purpose,
                    operation: None,
                    image: "0".into(),
                    same_as: None,
                    reached_from: None,
                    verdict: if passed { Verdict::Passed } else { Verdict::Failed(1) },
                    fails_anyway: false,
                    seconds: 0.0,
                    failure: None,
                    observation: None,
                    behaviour: proposal.behaviour.as_ref().map(|behaviour| behaviour.number),
                    indirect: None,
                });
                proposed.push(proposal);
            }
        }
        let required = strategy.required().unwrap() as usize;
        let (chosen, proposed): (Vec<_>, Vec<_>) = proposed
            .into_iter()
            .partition(|one| one.point.choice.is_some());
        let firsts = proposed.iter().map(|one| one.purpose == TrialPurpose::FailurePoint);
        let in_order = firsts.enumerate().all(|(at, first)| (at < required) == first);
        prop_assert!(in_order, "first tries come first");
        let events = |purpose, or| -> BTreeSet<u64> {
            let wanted = proposed.iter().filter(|one| one.purpose == purpose || one.purpose == or);
            wanted.map(|one| one.point.event).collect()
        };
        let tried = events(TrialPurpose::FailurePoint, TrialPurpose::Occurrence);
        prop_assert_eq!(&tried, &points);
        prop_assert_eq!(&events(TrialPurpose::Store, TrialPurpose::Store), &stores);
        let different: HashSet<_> = proposed.iter().map(|one| &one.point).collect();
        prop_assert_eq!(different.len(), proposed.len());
        prop_assert_eq!(strategy.planned(), (proposed.len() + chosen.len()) as u64);

        let proposed_orders = chosen.iter().filter(|one| one.purpose == TrialPurpose::OpenOrder);
        prop_assert!(proposed_orders.count() <= orders, "suspects may try the same");
        let different: HashSet<_> = chosen.iter().map(|one| &one.point).collect();
        prop_assert_eq!(different.len(), chosen.len(), "no image is tried twice");
        prop_assert!(!strategy.extent().behaviours_unknown);
        // The model allows each image of a suspect, it loses something, and its instant is tried in program order.
        for one in &chosen {
            let of_behaviour = one.purpose == TrialPurpose::UpdateBehaviour && one.behaviour.is_some();
            let is_other = matches!(one.purpose, TrialPurpose::Suspect | TrialPurpose::OpenOrder);
            prop_assert!(of_behaviour || is_other);
            let image = chosen_image(&run, &once, &one.point);
            prop_assert!(!image.unwrap().lost.is_empty());
            let at_state = one.purpose == TrialPurpose::OpenOrder && stores.contains(&one.point.event);
            prop_assert!(at_state || points.contains(&one.point.event) || one.kind == PointKind::Exit);
        }
        let suspects = || strategy.suspects().iter();
        let images = suspects().flat_map(|one| &one.images);
        let keeping = suspects().flat_map(|one| one.keeping.iter().flatten());
        let images: HashSet<&CrashPoint> = images.chain(keeping).collect();
        let of_suspects = chosen.iter().filter(|one| one.purpose == TrialPurpose::Suspect);
        for one in of_suspects {
            prop_assert!(images.contains(&one.point));
        }
        let chosen: HashSet<&CrashPoint> = chosen.iter().map(|one| &one.point).collect();
        prop_assert!(suspects().flat_map(|one| &one.images).all(|image| chosen.contains(image)));
        for suspect in strategy.suspects() {
            prop_assert_eq!(suspect.images.is_empty(), suspect.no_image.is_some());
        }
    }
}
