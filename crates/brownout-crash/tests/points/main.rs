//! Failure points and crash images of small traces made by hand.

mod auto;
mod exhaustive;
mod exploration_order;
mod interrupted;
mod recall;
mod representative;
mod states;
mod traces;

use brownout_crash::{Granularity, Operation, PointKind, RecordedRun, Scope, Survey};
use brownout_names::FunctionPattern;
use brownout_trace::EventIndex;
use traces::{BASE, Made, Numbers, Silent, flush, locked_store, store};

fn survey(made: &Made, scope: Scope) -> (RecordedRun, Survey) {
    let run = RecordedRun::new(made.path(), made.selection());
    let survey = run.survey(scope, &mut Numbers, &mut Silent).unwrap();
    (run, survey)
}

/// Kind, first event and count of each leaf.
fn leaves(survey: &Survey) -> Vec<(PointKind, u64, u64)> {
    let leaves = survey.points.leaves().iter();
    leaves
        .map(|leaf| (leaf.kind, leaf.chosen()[0].event.0, leaf.count))
        .collect()
}

#[test]
fn only_what_follows_a_store_is_a_failure_point() {
    let mut made = Made::new();
    made.at(1, flush(BASE)); // nothing to lose yet
    made.at(2, store(BASE, &[1]));
    let first = made.at(3, flush(BASE));
    made.at(4, traces::sfence()); // nothing new since the flush
    made.at(5, store(BASE + 8, &[2]));
    let second = made.at(6, traces::sfence());
    let (_, survey) = survey(&made.finish(), Scope::default());
    assert_eq!(
        leaves(&survey),
        [(PointKind::Flush, first, 1), (PointKind::Fence, second, 1)]
    );
}

#[test]
fn stores_elsewhere_do_not_count() {
    let mut made = Made::new();
    made.at(1, store(0x1000_0000, &[1]));
    made.at(2, flush(BASE));
    let (_, survey) = survey(&made.finish(), Scope::default());
    assert!(leaves(&survey).is_empty());
}

#[test]
fn one_context_is_one_leaf() {
    let mut made = Made::new();
    let mut points = Vec::new();
    for round in 0..10 {
        made.at(1, store(BASE, &[round]));
        points.push(made.at(2, flush(BASE)));
    }
    let made = made.finish();
    let (_, once) = survey(&made, Scope::default());
    assert_eq!(leaves(&once), [(PointKind::Flush, points[0], 10)]);
    let scope = Scope {
        occurrences: 2,
        ..Scope::default()
    };
    let (_, twice) = survey(&made, scope);
    let chosen = twice.points.leaves()[0].chosen();
    let events: Vec<u64> = chosen.iter().map(|chosen| chosen.event.0).collect();
    assert_eq!(events, [points[0], points[9]]);
}

#[test]
fn each_store_is_a_failure_point_if_asked_for() {
    let mut made = Made::new();
    made.at(1, store(BASE, &[1]));
    let second = made.at(2, store(BASE + 8, &[2]));
    let flushed = made.at(3, flush(BASE));
    let made = made.finish();
    let (_, coarse) = survey(&made, Scope::default());
    assert_eq!(leaves(&coarse), [(PointKind::Flush, flushed, 1)]);
    let scope = Scope {
        granularity: Granularity::Store,
        ..Scope::default()
    };
    let (_, fine) = survey(&made, scope);
    assert_eq!(
        leaves(&fine),
        [
            (PointKind::Store, second, 1),
            (PointKind::Flush, flushed, 1)
        ]
    );
}

#[test]
fn a_locked_store_is_a_failure_point_before_it_stores() {
    let mut made = Made::new();
    made.at(1, store(BASE, &[1]));
    let locked = made.at(2, locked_store(BASE + 8, &[9]));
    let exit = made.exit();
    let made = made.finish();
    let (run, survey) = survey(&made, Scope::default());
    assert_eq!(
        leaves(&survey),
        [(PointKind::Locked, locked, 1), (PointKind::Exit, exit, 1)]
    );
    let before = |event| {
        let event = Some(EventIndex(event));
        let (image, _) = run.image_before(event, &survey.files, &mut Silent).unwrap();
        let mut bytes = [0; 9];
        image.files[0].as_ref().unwrap().read(0, &mut bytes);
        (bytes[0], bytes[8])
    };
    assert_eq!(before(locked), (1, 0));
    assert_eq!(before(exit), (1, 9));
}

#[test]
fn operations_are_counted_and_nothing_comes_before_the_beginning() {
    let mut made = Made::new();
    made.at(1, store(BASE, &[1]));
    made.at(2, flush(BASE));
    made.call("create");
    made.at(3, store(BASE, &[2]));
    made.at(4, flush(BASE));
    made.returned("create");
    for _ in 0..2 {
        made.call("put");
        made.call("put"); // a call within a call is part of it
        made.at(5, store(BASE, &[3]));
        made.at(6, flush(BASE));
        made.returned("put");
        made.returned("put");
        made.at(7, store(BASE, &[4]));
        made.at(8, flush(BASE));
    }
    let scope = Scope {
        after: Some(FunctionPattern::new("create")),
        operations: vec![FunctionPattern::new("put")],
        occurrences: 2,
        ..Scope::default()
    };
    let (_, survey) = survey(&made.finish(), scope);
    let at = |completed, active| Operation { completed, active };
    let seen: Vec<Vec<Operation>> = survey
        .points
        .leaves()
        .iter()
        .map(|leaf| {
            leaf.chosen()
                .iter()
                .map(|chosen| chosen.operation)
                .collect()
        })
        .collect();
    assert_eq!(
        seen,
        [
            vec![at(0, true), at(1, true)],
            vec![at(1, false), at(2, false)]
        ]
    );
    assert!(survey.points.begun());
    assert_eq!(survey.points.missing_operations().count(), 0);
}

#[test]
fn a_function_that_was_never_called_is_noticed() {
    let mut made = Made::new();
    made.at(1, store(BASE, &[1]));
    made.at(2, flush(BASE));
    let scope = Scope {
        after: Some(FunctionPattern::new("create")),
        operations: vec![FunctionPattern::new("put")],
        ..Scope::default()
    };
    let (_, survey) = survey(&made.finish(), scope);
    assert!(!survey.points.begun());
    let missing: Vec<&str> = survey
        .points
        .missing_operations()
        .map(FunctionPattern::text)
        .collect();
    assert_eq!(missing, ["put"]);
    assert!(leaves(&survey).is_empty());
}

#[test]
fn images_with_equal_content_have_equal_digests() {
    let mut made = Made::new();
    made.at(1, store(BASE, &[1]));
    let first = made.at(2, flush(BASE));
    made.at(3, store(BASE, &[2]));
    let other = made.at(4, flush(BASE));
    made.at(5, store(BASE, &[1]));
    let again = made.at(6, flush(BASE));
    let made = made.finish();
    let (run, survey) = survey(&made, Scope::default());
    let digest = |event| {
        let event = Some(EventIndex(event));
        run.image_before(event, &survey.files, &mut Silent)
            .unwrap()
            .1
    };
    assert_eq!(digest(first), digest(again));
    assert_ne!(digest(first), digest(other));
}

#[test]
fn a_file_that_is_mapped_later_is_there_as_it_will_be() {
    let mut made = Made::new();
    made.at(1, store(BASE, &[1]));
    let before = made.at(2, flush(BASE));
    made.map_second(b"initial");
    made.at(3, store(traces::SECOND, b"CHANGED"));
    let after = made.at(4, flush(traces::SECOND));
    let made = made.finish();
    let (run, survey) = survey(&made, Scope::default());
    let second = |event| {
        let event = Some(EventIndex(event));
        let (image, _) = run.image_before(event, &survey.files, &mut Silent).unwrap();
        let mut bytes = [0; 7];
        image.files[1].as_ref().unwrap().read(0, &mut bytes);
        bytes
    };
    assert_eq!(&second(before), b"initial");
    assert_eq!(&second(after), b"CHANGED");
}
