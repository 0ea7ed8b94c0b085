//! What readers do with what they have read.

use brownout_model::Profile;
use brownout_trace::FlushKind;

use crate::target_run::*;

fn reader(read: impl FnOnce(&mut TargetRun)) -> Vec<String> {
    let mut run = TargetRun::new();
    run.create([T2, T3]);
    run.thread(T2).at(1).store_value(X, Z);
    run.thread(T3).at(2).load_value(X, Z);
    read(&mut run);
    run.races()
}

#[test]
fn a_store_into_what_a_loaded_pointer_points_to_is_harm_once_it_is_durable() {
    let races = reader(|run| {
        run.at(3).store(Z + 16).persist(Z + 16);
    });
    assert_eq!(races, ["1-2 never observed!"]);
    let races = reader(|run| {
        run.at(3).store(Z + 16);
    });
    assert_eq!(races, ["1-2 never observed"]);
    let races = reader(|run| {
        run.at(3).store(Y).persist(Y);
    });
    assert_eq!(races, ["1-2 never observed"]);
}

#[test]
fn pointers_are_followed() {
    let races = reader(|run| {
        let far = Z + 0x2000;
        run.at(3)
            .load_value(Z + 8, far)
            .at(4)
            .store(far + 8)
            .persist(far + 8);
    });
    assert_eq!(races, ["1-2 never observed!"]);
}

#[test]
fn a_copy_of_what_was_loaded_is_harm() {
    let races = reader(|run| {
        run.at(3).store_value(Y, Z).persist(Y);
    });
    assert_eq!(races, ["1-2 never observed!"]);
}

#[test]
fn an_offset_in_the_file_is_a_pointer() {
    let mut run = TargetRun::new();
    run.create([T2, T3]);
    let offset = Z - POOL;
    run.thread(T2).at(1).store_value(X, offset);
    run.thread(T3)
        .at(2)
        .load_value(X, offset)
        .at(3)
        .store(Z)
        .persist(Z);
    assert_eq!(run.races(), ["1-2 never observed!"]);
}

#[test]
fn what_is_stored_after_the_data_is_known_to_be_durable_is_no_harm() {
    let races = reader(|run| {
        run.thread(T2).persist(X).call("sem_post", &[A]);
        run.thread(T3)
            .call("sem_wait", &[A])
            .at(3)
            .store(Z)
            .persist(Z);
    });
    assert_eq!(races, ["1-2 observed"]);
    let races = reader(|run| {
        run.thread(T2).persist(X);
        run.thread(T3).at(3).store(Z).persist(Z);
    });
    assert_eq!(races, ["1-2 observed!"]);
}

#[test]
fn a_reader_that_persists_what_it_has_read_before_it_stores_is_no_race() {
    let races = reader(|run| {
        run.persist(X).at(3).store(Z).persist(Z);
    });
    assert!(races.is_empty(), "{races:?}");
    let races = reader(|run| {
        run.at(3).store(Z).persist(X).persist(Z);
    });
    assert_eq!(races, ["1-2 observed!"]);
    let races = reader(|run| {
        run.flush(X).at(3).store(Z).fence().persist(Z);
    });
    assert_eq!(races, ["1-2 observed!"], "a flush without a fence");
}

#[test]
fn a_reader_that_flushes_another_line_has_not_persisted_what_it_has_read() {
    let races = reader(|run| {
        run.flush(X).any_flush(Y, FlushKind::Clflush);
        run.at(3).store(Z).persist(Z);
    });
    assert_eq!(races, ["1-2 observed!"]);
    let races = reader(|run| {
        run.any_flush(X, FlushKind::Clflush);
        run.at(3).store(Z).persist(Z);
    });
    assert!(races.is_empty(), "{races:?}");
}

#[test]
fn a_reader_that_syncs_what_it_has_read_before_it_stores_is_no_race() {
    let synced = |addr: u64| {
        let mut run = TargetRun::new();
        run.profile = Profile::MSYNC;
        run.create([T2, T3]);
        run.thread(T2).at(1).store_value(X, Z);
        run.thread(T3).at(2).load_value(X, Z).sync(addr);
        run.at(3).store(Z).sync(Z);
        run.races()
    };
    assert!(synced(POOL).is_empty());
    assert_eq!(synced(Z), ["1-2 never observed!"]);
}

#[test]
fn what_is_stored_after_the_data_was_read_again_and_durable_is_no_harm() {
    let races = reader(|run| {
        run.thread(T2).persist(X).thread(T3).at(2).load_value(X, Z);
        run.at(3).store(Z).persist(Z);
    });
    assert_eq!(races, ["1-2 observed"]);
    // It was still not durable.
    let races = reader(|run| {
        run.load_value(X, Z).at(3).store(Z).persist(Z);
    });
    assert_eq!(races, ["1-2 never observed!"]);
    // Another value says nothing of the first one.
    let races = reader(|run| {
        run.thread(T2).at(4).store_value(X, Y).persist(X);
        run.thread(T3).at(2).load_value(X, Y);
        run.at(3).store(Z).persist(Z);
    });
    assert_eq!(races, ["1-2 observed!", "4-2"]);
}
