//! Effective locksets: HawkSet, Figs. 1, 2 and 5.

use brownout_libraries::LockFunction;
use brownout_model::Profile;
use brownout_trace::StoreFlavor;

use crate::target_run::*;

fn threads() -> TargetRun {
    let mut run = TargetRun::new();
    run.create([T2, T3]);
    run
}

#[test]
fn a_persist_in_the_critical_section_is_no_race() {
    // Figs. 1a and 1b together.
    let mut run = threads();
    run.thread(T2).lock(A).at(1).store(X).persist(X).unlock(A);
    run.thread(T3).lock(A).at(2).load(X).unlock(A);
    assert!(run.races().is_empty());
}

#[test]
fn a_persist_after_the_critical_section_is_a_race() {
    // Figs. 1c and 2a.
    let mut run = threads();
    run.thread(T2).lock(A).at(1).store(X).unlock(A).persist(X);
    run.thread(T3).lock(A).at(2).load(X).unlock(A);
    assert_eq!(run.races(), ["1-2"]);
}

#[test]
fn a_lock_that_is_released_and_acquired_again_protects_nothing() {
    // Figs. 2b and 2d.
    let mut run = threads();
    run.thread(T2).lock(A).at(1).store(X).unlock(A);
    run.lock(A).persist(X).unlock(A);
    run.thread(T3).lock(A).at(2).load(X).unlock(A);
    assert_eq!(run.races(), ["1-2"]);
}

#[test]
fn an_outer_lock_protects_although_an_inner_one_is_released() {
    let mut run = threads();
    run.thread(T2).lock(A).lock(B).at(1).store(X).unlock(B);
    run.lock(B).persist(X).unlock(B).unlock(A);
    run.thread(T3).lock(A).at(2).load(X).unlock(A);
    run.lock(B).at(3).load(X).unlock(B);
    assert_eq!(run.races(), ["1-3"]);
}

#[test]
fn the_lockset_of_a_persist_is_that_of_its_fence() {
    let mut run = threads();
    run.thread(T2)
        .lock(A)
        .at(1)
        .store(X)
        .flush(X)
        .unlock(A)
        .fence();
    run.thread(T3).lock(A).at(2).load(X).unlock(A);
    assert_eq!(run.races(), ["1-2"]);
}

#[test]
fn a_pointer_that_is_read_without_a_lock_before_it_is_durable_is_observed() {
    // Fig. 5: a new node is linked, and another thread inserts into it.
    let mut run = threads();
    run.thread(T2).lock(A).at(1).store_value(X, Z);
    run.thread(T3).at(2).load_value(X, Z);
    run.thread(T2).persist(X).unlock(A);
    assert_eq!(run.races(), ["1-2 observed"]);
}

#[test]
fn another_thread_that_persists_or_overwrites_protects_nothing() {
    let mut run = threads();
    run.thread(T2).lock(A).at(1).store(X).unlock(A);
    run.thread(T3).lock(A).persist(X).at(2).load(X).unlock(A);
    run.thread(T2).lock(A).at(3).store(Y).unlock(A);
    run.thread(T3).lock(A).at(4).store(Y).persist(Y).unlock(A);
    run.thread(T1).lock(A).at(5).load(X).at(6).load(Y).unlock(A);
    // The thread that has persisted the store itself cannot read it before.
    assert_eq!(run.races(), ["1-5", "3-6"]);
}

#[test]
fn a_reader_that_makes_the_store_durable_later_has_read_it_before() {
    let mut run = threads();
    run.thread(T2).at(1).store_value(X, Y);
    run.thread(T3).at(2).load_value(X, Y).at(3).store(Z);
    run.flush(X).flush(Z).fence().at(2).load_value(X, Y);
    assert_eq!(run.races(), ["1-2 observed"]);
    let mut run = threads();
    run.thread(T2).at(1).store(X);
    run.thread(T3).at(2).load(X).at(3).store(X).at(2).load(X);
    assert_eq!(run.races(), ["1-2 observed"], "overwritten");
}

#[test]
fn a_store_that_a_system_call_replaces_was_visible_until_then() {
    for truncated in [false, true] {
        let mut run = threads();
        run.thread(T2).at(1).store(X);
        run.thread(T3).at(2).load(X);
        run.thread(T2).at(3).replace_all(truncated);
        assert_eq!(run.races(), ["1-2 observed"]);
    }
}

#[test]
fn a_store_that_is_never_durable_races_with_every_load() {
    let mut run = threads();
    run.thread(T2).lock(A).at(1).store(X).unlock(A);
    run.thread(T3).lock(A).at(2).load(X).unlock(A);
    assert_eq!(run.races(), ["1-2 never observed"]);
}

#[test]
fn a_store_that_its_thread_overwrites_is_visible_until_then() {
    let mut run = threads();
    run.thread(T2).lock(A).at(1).store(X).unlock(A);
    run.lock(A).at(2).store(X).persist(X).unlock(A);
    run.thread(T3).lock(A).at(3).load(X).unlock(A);
    assert_eq!(run.races(), ["1-3"]);
}

#[test]
fn bytes_are_distinguished() {
    let mut run = threads();
    run.thread(T2).at(1).store(X).persist(X);
    run.thread(T3).at(2).load(X + 8).at(3).load(X + 4);
    assert_eq!(run.races(), ["1-3"]);
}

#[test]
fn two_stores_are_no_race_and_a_locked_instruction_also_loads() {
    let mut run = threads();
    run.thread(T2).at(1).store(X).persist(X);
    run.thread(T3).at(2).store(X).persist(X);
    assert!(run.races().is_empty());
    let mut run = threads();
    run.thread(T2).at(1).store(X).persist(X);
    run.thread(T3).at(2);
    run.any_store(X, 7, StoreFlavor::Temporal, true).persist(X);
    assert_eq!(run.races(), ["1-2"]);
}

#[test]
fn an_addition_to_memory_loads_what_it_overwrites() {
    let mut run = threads();
    run.thread(T2).at(1).store(X).persist(X);
    run.thread(T3).at(2);
    run.any_store(X, 7, StoreFlavor::Modifying, false)
        .persist(X);
    assert_eq!(run.races(), ["1-2"]);
}

#[test]
fn readers_of_a_lock_exclude_writers_only() {
    let mut run = threads();
    run.thread(T2).call("pthread_rwlock_wrlock", &[A]);
    run.at(1)
        .store(X)
        .persist(X)
        .call("pthread_rwlock_unlock", &[A]);
    run.call("pthread_rwlock_rdlock", &[A]);
    run.at(2)
        .store(Y)
        .persist(Y)
        .call("pthread_rwlock_unlock", &[A]);
    run.thread(T3).call("pthread_rwlock_rdlock", &[A]);
    run.at(3)
        .load(X)
        .at(4)
        .load(Y)
        .call("pthread_rwlock_unlock", &[A]);
    assert_eq!(run.races(), ["2-4"]);
}

#[test]
fn a_recursive_lock_protects_until_it_is_released_as_often() {
    let mut run = threads();
    run.thread(T2).lock(A).at(1).store(X).lock(A).unlock(A);
    run.persist(X).unlock(A);
    run.thread(T3).lock(A).at(2).load(X).unlock(A);
    assert!(run.races().is_empty());
}

#[test]
fn a_lock_that_could_not_be_acquired_protects_nothing() {
    const BUSY: u64 = 16;
    let mut run = threads();
    run.thread(T2).lock(A).at(1).store(X).persist(X).unlock(A);
    run.thread(T3).begin("pthread_mutex_trylock", &[A]);
    run.end("pthread_mutex_trylock", BUSY).at(2).load(X);
    assert_eq!(run.races(), ["1-2"]);
}

#[test]
fn a_lock_in_the_pool_is_the_same_through_every_mapping() {
    const AGAIN: u64 = POOL + 0x10_0000;
    let mut run = threads();
    run.map(AGAIN);
    run.thread(T2).lock(Y).at(1).store(X).persist(X).unlock(Y);
    let other = |addr: u64| addr - POOL + AGAIN;
    run.thread(T3)
        .lock(other(Y))
        .at(2)
        .load(other(X))
        .unlock(other(Y));
    assert!(run.races().is_empty());
    let mut run = threads();
    run.map(AGAIN);
    run.thread(T2).at(1).store(X).persist(X);
    run.thread(T3).at(2).load(other(X));
    assert_eq!(run.races(), ["1-2"]);
}

#[test]
fn functions_that_the_user_names_are_locks() {
    let mut run = threads();
    run.custom("take", LockFunction::Exclusive, &[1])
        .custom("give", LockFunction::Release, &[]);
    run.thread(T2).begin("take", &[A]).end("take", 1);
    run.at(1).store(X).persist(X).call("give", &[A]);
    run.thread(T3).begin("take", &[A]).end("take", 1);
    run.at(2).load(X).call("give", &[A]);
    run.begin("take", &[A]).end("take", 0).at(3).load(X);
    assert_eq!(run.races(), ["1-3"]);
}

#[test]
fn what_functions_do_to_their_locks_is_no_race() {
    let mut run = threads();
    run.custom("take", LockFunction::Exclusive, &[])
        .custom("give", LockFunction::Release, &[]);
    for thread in [T2, T3] {
        run.thread(thread).begin("take", &[X]).at(1).load(X);
        run.any_store(X, 1, StoreFlavor::Temporal, true)
            .end("take", 0);
        run.begin("give", &[X]).at(2).store(X).end("give", 0);
    }
    assert!(run.races().is_empty());
}

#[test]
fn what_a_library_does_to_its_own_data_is_no_race() {
    let mut run = threads();
    run.thread(T2).at(LIBRARY).store(X).persist(X);
    run.thread(T3).at(1).load(X).at(LIBRARY + 1).load(Y);
    run.thread(T2).at(2).store(Y).persist(Y);
    assert!(run.races().is_empty());
}

#[test]
fn only_non_temporal_stores_race_where_caches_are_persistent() {
    for profile in [Profile::EADR, Profile::GPF] {
        let mut run = threads();
        run.profile = profile;
        run.thread(T2).at(1).store(X).persist(X).at(2);
        run.any_store(Y, 1, StoreFlavor::NonTemporal, false).fence();
        run.thread(T3).at(3).load(X).at(4).load(Y);
        assert_eq!(run.races(), ["2-4"], "{}", profile.name);
    }
}

#[test]
fn a_recognised_lock_protects_once_its_release_confirms_it() {
    let mut run = threads();
    for thread in [T2, T3] {
        run.thread(thread).at(9);
        run.any_store(Y, 1, StoreFlavor::Temporal, true);
        run.acquire(Y, 8, false);
        match thread {
            T2 => run.at(1).store(X).persist(X),
            _ => run.at(2).load(X).at(8).load(Y),
        };
        run.release(Y, Release::ByStore);
        run.at(7).store(Y);
    }
    // An acquire that is never released is no lock.
    run.thread(T3).acquire(Y, 8, false);
    run.at(3).load(X);
    let outcome = run.finish();
    assert_eq!(outcome.by_recognised_locks.len(), 1);
    assert_eq!(races(&outcome), ["1-3"]);
}

#[test]
fn the_data_beside_the_word_of_a_lock_is_data() {
    let mut run = threads();
    for thread in [T2, T3] {
        run.thread(thread).at(9).store_bytes(Y, &[1; 4]);
        run.acquire(Y, 4, false);
        match thread {
            T2 => run.at(1).store_bytes(Y + 4, &[7; 4]),
            _ => run.at(2).load_bytes(Y + 4, &[7; 4]),
        };
        run.release(Y, Release::ByStore);
        run.at(8).store_bytes(Y, &[0; 4]);
    }
    run.thread(T2).persist(Y);
    assert_eq!(run.races(), ["1-2 observed"]);
}

#[test]
fn a_count_that_goes_up_and_down_is_data() {
    let mut run = threads();
    for thread in [T2, T3] {
        run.thread(thread).at(1);
        run.any_store(Y, 1, StoreFlavor::Temporal, true);
        run.acquire(Y, 8, true).at(3).load(X);
        run.release(Y, Release::Shared).at(2);
        run.any_store(Y, 0, StoreFlavor::Temporal, true).persist(Y);
    }
    let races = run.races();
    assert!(races.contains(&"2-1".to_owned()), "{races:?}");
}

#[test]
fn a_flag_that_one_thread_exchanges_is_data() {
    let flag = |others: &[brownout_trace::ThreadId]| {
        let mut run = threads();
        for &thread in others {
            run.thread(thread).at(1);
            run.any_store(Y, 1, StoreFlavor::Temporal, true);
            run.acquire(Y, 8, false).at(4).store(X).persist(X);
            run.release(Y, Release::ByExchange).at(2);
            run.any_store(Y, 0, StoreFlavor::Temporal, true).persist(Y);
        }
        run.thread(T1).at(3).load(Y);
        run.races()
    };
    let of_one = flag(&[T2]);
    assert_eq!(of_one, ["1-3", "2-3"]);
    assert!(flag(&[T2, T3]).is_empty(), "a lock");
}

#[test]
fn the_instructions_of_a_lock_function_do_not_count() {
    let mut run = threads();
    run.thread(T2).begin("pthread_rwlock_wrlock", &[A]);
    run.acquire(A, 8, false);
    run.end("pthread_rwlock_wrlock", 0)
        .call("pthread_rwlock_unlock", &[A])
        .call("pthread_rwlock_rdlock", &[A]);
    run.thread(T3).call("pthread_rwlock_rdlock", &[A]);
    run.thread(T2).at(2).load(X);
    run.call("pthread_rwlock_unlock", &[A]);
    // It is noticed late that the lock was released.
    run.release(A, Release::ByStore);
    run.thread(T3).call("pthread_rwlock_unlock", &[A]);
    run.call("pthread_rwlock_wrlock", &[A]).at(1).store(X);
    run.persist(X).call("pthread_rwlock_unlock", &[A]);
    assert!(run.races().is_empty());
}
