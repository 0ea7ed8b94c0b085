//! The listings and figures of chapter 4 of Neal's dissertation, rebuilt from their captions and the prose.

use brownout_model::StoreNumber;

use super::small_run::SmallRun;

/// Figs. 4.3 and 4.5: the updates of X in three epochs, with one of Y between the second and the third.
fn figure_4_5() -> SmallRun {
    let mut run = SmallRun::default();
    run.update("x: X.A");
    run.persist(&["x: X.A"]);
    for field in ["x: X.B", "x: X.C", "x: X.D"] {
        run.update(field);
    }
    run.persist(&["x: X.B", "x: X.C", "x: X.D"]);
    run.update("x: X.A");
    run.persist(&["x: X.A"]);
    run.update("x: X.B");
    run.update("x: X.C");
    run.persist(&["x: X.C"]);
    run.update("y: Y.Q");
    run.persist(&["y: Y.Q"]);
    run.update("x: X.D");
    run.persist(&["x: X.B", "x: X.D"]);
    run
}

#[test]
fn figure_4_3_a_store_that_is_persisted_precedes_all_later_ones() {
    let (order, _) = figure_4_5().finish();
    let before = |first, second| order.persists_before(StoreNumber(first), StoreNumber(second));
    assert!(before(0, 1) && before(0, 2), "X.A precedes X.B and X.C");
    assert!(
        !before(1, 2) && !before(2, 1),
        "X.B and X.C are not ordered"
    );
    assert!(before(1, 4) && before(2, 4), "both precede what follows");
}

#[test]
fn figure_4_4_a_store_to_an_inner_struct_is_in_the_graphs_of_both_types() {
    let mut run = SmallRun::default();
    run.update("x: outer.a");
    run.update("x: outer.in(inner).b");
    run.update("x: outer.in(inner).c");
    run.update("z: unrelated.d");
    let found = run.behaviours();
    let mut all = found.all();
    all.sort();
    assert_eq!(
        all,
        [
            "inner.b inner.c",
            "outer.a outer.in.b outer.in.c",
            "unrelated.d"
        ]
    );
}

#[test]
fn inner_structs_are_instances_of_their_own() {
    let mut run = SmallRun::default();
    run.update("x: outer.left(inner).b");
    run.update("x: outer.right(inner).b");
    run.update("x: outer.all[0](inner).b");
    run.update("x: outer.all[1](inner).b");
    let found = run.behaviours();
    let inner = found.all().into_iter().filter(|fields| fields == "inner.b");
    assert_eq!(inner.count(), 4);
    // All four are the same behaviour, and one of them is tested.
    let groups = found.groups();
    assert_eq!(groups.len(), 2);
    assert_eq!(groups[1], ["inner.b"; 4]);
}

#[test]
fn figure_4_5_epochs_end_at_repeated_fields_and_at_other_updates() {
    assert_eq!(
        figure_4_5().behaviours().all(),
        ["X.A X.B X.C X.D", "X.A X.B X.C", "Y.Q", "X.D"]
    );
}

#[test]
fn figure_4_5a_a_field_that_is_updated_again_begins_an_epoch_only_if_all_is_persisted() {
    let mut run = SmallRun::default();
    run.update("x: X.A");
    run.update("x: X.B");
    run.persist(&["x: X.A"]);
    run.update("x: X.A");
    run.persist(&["x: X.A", "x: X.B"]);
    // Fields of the first epoch do not count in the second.
    run.update("x: X.B");
    run.update("x: X.A");
    assert_eq!(run.behaviours().all(), ["X.A X.B X.A", "X.B X.A"]);
}

#[test]
fn figure_4_5b_what_is_issued_before_the_other_update_belongs_to_the_earlier_epoch() {
    let mut run = SmallRun::default();
    run.update("x: X.C");
    run.persist(&["x: X.C"]);
    run.update("x: X.B");
    run.update("y: Y.Q");
    run.update("x: X.E");
    run.persist(&["y: Y.Q"]);
    run.update("x: X.D");
    assert_eq!(run.behaviours().all(), ["X.C X.B", "Y.Q", "X.E X.D"]);
}

#[test]
fn both_criteria_end_epochs_of_one_object() {
    let mut run = SmallRun::default();
    run.update("x: X.A");
    run.persist(&["x: X.A"]);
    run.update("y: Y.Q");
    run.update("x: X.B");
    run.persist(&["y: Y.Q", "x: X.B"]);
    // Y.Q persists between X.A and this store, which also repeats a field.
    run.update("x: X.A");
    assert_eq!(run.behaviours().all(), ["X.A", "Y.Q", "X.B", "X.A"]);
}

#[test]
fn every_update_of_something_else_between_two_stores_ends_an_epoch() {
    let mut run = SmallRun::default();
    run.update("x: X.A");
    run.persist(&["x: X.A"]);
    run.update("y: Y.Q");
    run.update("x: X.B");
    run.persist(&["x: X.B"]);
    run.update("z: Z.R");
    run.update("x: X.C");
    run.persist(&["y: Y.Q", "z: Z.R"]);
    run.update("x: X.D");
    let expected = ["X.A", "Y.Q", "X.B", "Z.R", "X.C X.D"];
    assert_eq!(run.behaviours().all(), expected);
}

#[test]
fn an_object_in_memory_that_was_freed_is_another_instance() {
    let mut run = SmallRun::default();
    run.update("x: X.A");
    run.generation = 1;
    run.update("x: X.B");
    assert_eq!(run.behaviours().all(), ["X.A", "X.B"]);
}

#[test]
fn an_update_of_another_thread_ends_no_epoch() {
    let mut run = SmallRun::default();
    run.update("x: X.C");
    run.persist(&["x: X.C"]);
    run.thread = 1;
    run.update("y: Y.Q");
    run.persist(&["y: Y.Q"]);
    run.thread = 0;
    run.update("x: X.D");
    assert_eq!(run.behaviours().all(), ["X.C X.D", "Y.Q"]);
}

#[test]
fn figure_4_6_the_largest_epoch_represents_the_others() {
    assert_eq!(
        figure_4_5().behaviours().groups(),
        [vec!["X.A X.B X.C X.D", "X.A X.B X.C", "X.D"], vec!["Y.Q"]]
    );
}

/// Listing 4.1: `key`, `value` and `valid` are persisted together.
fn insert(run: &mut SmallRun, entry: &str) {
    let fields = ["key", "value", "valid"].map(|field| format!("{entry}: entry_t.{field}"));
    for field in &fields {
        run.update(field);
    }
    run.persist(&fields.each_ref().map(String::as_str));
}

/// Listing 4.2: a new entry replaces an old one.
fn replace(run: &mut SmallRun, entry: &str, old: &str) {
    let fields = ["key", "value", "valid"].map(|field| format!("{entry}: entry_t.{field}"));
    for field in &fields {
        run.update(field);
    }
    let old = format!("{old}: entry_t.valid");
    run.update(&old);
    run.persist(&fields.each_ref().map(String::as_str));
    run.persist(&[&old]);
}

/// Listing 4.3: `key` is persisted first.
fn insert_ordered(run: &mut SmallRun, entry: &str) {
    let [key, value, valid] =
        ["key", "value", "valid"].map(|field| format!("{entry}: entry_t.{field}"));
    run.update(&key);
    run.persist(&[&key]);
    run.update(&value);
    run.update(&valid);
    run.persist(&[&value, &valid]);
}

const ALL: &str = "entry_t.key entry_t.value entry_t.valid";

#[test]
fn listings_4_1_and_4_2_an_insertion_represents_both_updates_of_a_replacement() {
    let mut run = SmallRun::default();
    insert(&mut run, "a");
    replace(&mut run, "b", "a");
    let groups = run.behaviours().groups();
    assert_eq!(groups, [vec![ALL, ALL, "entry_t.valid"]]);
}

#[test]
fn listing_4_3_what_is_less_ordered_represents_what_is_more_ordered() {
    let mut run = SmallRun::default();
    insert_ordered(&mut run, "a");
    insert(&mut run, "b");
    let found = run.behaviours();
    let [group] = found.behaviours.groups() else {
        panic!("{:?}", found.groups());
    };
    // The second of the run, though the first has as many stores.
    assert_eq!(found.behaviours.representative(group).0, 1);
    let constraints = |number| found.behaviours.shape(group.shapes[number]).constraints();
    assert_eq!((constraints(0), constraints(1)), (0, 2));
}

#[test]
fn figure_4_1_stores_to_one_line_are_ordered() {
    let mut run = SmallRun::default();
    run.place("x: T.B", 0x8000);
    run.place("x: T.C", 0x8008);
    run.update("x: T.A");
    run.persist(&["x: T.A"]);
    run.update("x: T.B");
    run.update("x: T.C");
    // Of another object, B and C lie in different lines: it allows more states and represents the first.
    run.update("y: T.A");
    run.persist(&["y: T.A"]);
    run.update("y: T.B");
    run.update("y: T.C");
    let found = run.behaviours();
    let [group] = found.behaviours.groups() else {
        panic!("{:?}", found.groups());
    };
    assert_eq!(found.behaviours.representative(group).0, 1);
    let constraints = |number| found.behaviours.shape(group.shapes[number]).constraints();
    assert_eq!((constraints(0), constraints(1)), (2, 3));
}

#[test]
fn slots_of_an_array_are_one_behaviour() {
    let mut run = SmallRun::default();
    for slot in [3, 7, 5] {
        run.update(&format!("x: table.slots[{slot}].key"));
        run.update(&format!("x: table.slots[{slot}].value"));
        run.persist_all();
        run.update("y: log.head");
        run.persist_all();
    }
    let found = run.behaviours();
    assert_eq!(found.all()[0], "table.slots[3].key table.slots[3].value");
    let groups = found.groups();
    assert_eq!(groups.len(), 2, "{groups:?}");
    assert_eq!(groups[0].len(), 3);
}

#[test]
fn a_behaviour_joins_every_group_that_represents_it() {
    let mut run = SmallRun::default();
    // Two that do not represent each other, and one that both represent.
    for fields in [["A", "B"], ["B", "C"]] {
        for field in fields {
            run.update(&format!("{}: T.{field}", fields[0]));
        }
        run.persist_all();
    }
    run.update("z: T.B");
    assert_eq!(
        run.behaviours().groups(),
        [vec!["T.A T.B", "T.B"], vec!["T.B T.C", "T.B"]]
    );
}
