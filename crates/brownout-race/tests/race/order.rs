//! What happens before: HawkSet, Fig. 3, and what it leaves out.

use crate::target_run::*;

#[test]
fn what_is_durable_before_a_thread_is_created_is_no_race() {
    // Fig. 3: Store₁ of T1, and the stores and loads of T2 and T3.
    let mut run = TargetRun::new();
    run.at(1).store(X).persist(X).create([T2]);
    run.at(3).store(Y).create([T3]);
    run.thread(T2).at(2).load(X);
    run.at(4).store(Z).persist(Z);
    run.thread(T1).persist(Y);
    run.thread(T3).at(5).load(X).at(6).load(Y).at(7).load(Z);
    // Y is durable only after T3 was created.
    assert_eq!(run.races(), ["3-6", "4-7"]);
}

#[test]
fn a_thread_knows_what_its_creator_did_before_the_creation_only() {
    let mut run = TargetRun::new();
    run.at(1).store(X).persist(X);
    let created = run.position();
    run.at(2).store(Y).persist(Y);
    run.start(T2, T1, created);
    run.thread(T2).at(3).load(X).at(4).load(Y);
    assert_eq!(run.races(), ["2-4"]);
}

#[test]
fn what_a_joined_thread_has_read_before_is_no_race() {
    let mut run = TargetRun::new();
    run.create([T2]);
    run.thread(T2).at(1).load(X);
    run.thread(T1).join(T2).at(2).store(X).persist(X);
    assert!(run.races().is_empty());
}

#[test]
fn a_store_before_the_creation_and_durable_after_the_join_is_a_race() {
    // Algorithm 1 compares the persist alone, which the load happened before.
    let mut run = TargetRun::new();
    run.at(1).store(X).create([T2]);
    run.thread(T2).at(2).load(X);
    run.thread(T1).join(T2).persist(X);
    assert_eq!(run.races(), ["1-2 observed"]);
}

#[test]
fn knowledge_is_passed_on_by_joins() {
    let mut run = TargetRun::new();
    run.create([T2]).thread(T2).at(1).store(X).persist(X);
    run.thread(T1).join(T2).create([T3]);
    run.thread(T3).at(2).load(X);
    assert!(run.races().is_empty());
}

#[test]
fn the_release_of_a_mutex_orders_nothing() {
    let mut run = TargetRun::new();
    run.create([T2, T3]).thread(T2).at(1).store(X).persist(X);
    run.lock(A)
        .unlock(A)
        .thread(T3)
        .lock(A)
        .unlock(A)
        .at(2)
        .load(X);
    assert_eq!(run.races(), ["1-2"]);
}

#[test]
fn a_semaphore_that_another_thread_posts_orders() {
    let mut run = TargetRun::new();
    run.create([T2, T3]);
    run.thread(T2)
        .at(1)
        .store(X)
        .persist(X)
        .call("sem_post", &[A]);
    run.at(3).store(Y).persist(Y);
    run.thread(T3)
        .call("sem_wait", &[A])
        .at(2)
        .load(X)
        .at(4)
        .load(Y);
    assert_eq!(run.races(), ["3-4"]);
}

#[test]
fn a_semaphore_that_its_thread_posts_is_a_lock() {
    let mut run = TargetRun::new();
    run.create([T2, T3]);
    run.thread(T2)
        .call("sem_wait", &[A])
        .at(1)
        .store(X)
        .persist(X);
    run.call("sem_post", &[A]).at(3).store(Y).persist(Y);
    run.thread(T3)
        .call("sem_wait", &[A])
        .at(2)
        .load(X)
        .at(4)
        .load(Y);
    run.call("sem_post", &[A]);
    assert_eq!(run.races(), ["3-4"]);
}

#[test]
fn a_semaphore_that_two_threads_hold_is_no_lock() {
    let mut run = TargetRun::new();
    run.create([T2, T3]);
    run.thread(T2)
        .call("sem_wait", &[A])
        .at(1)
        .store(X)
        .persist(X);
    run.thread(T3)
        .call("sem_wait", &[A])
        .at(2)
        .load(X)
        .call("sem_post", &[A]);
    run.thread(T2).call("sem_post", &[A]);
    assert_eq!(run.races(), ["1-2"]);
}

#[test]
fn a_barrier_orders_what_is_before_it_and_what_is_after_it() {
    let mut run = TargetRun::new();
    run.create([T2, T3]);
    run.thread(T2)
        .at(1)
        .store(X)
        .persist(X)
        .begin("pthread_barrier_wait", &[A]);
    run.thread(T3)
        .at(2)
        .load(Y)
        .begin("pthread_barrier_wait", &[A]);
    run.end("pthread_barrier_wait", 1).at(3).load(X);
    run.thread(T2)
        .end("pthread_barrier_wait", 0)
        .at(4)
        .store(Y)
        .persist(Y);
    run.at(5).store(Z).persist(Z);
    run.thread(T3).at(6).load(Z);
    assert_eq!(run.races(), ["5-6"]);
}

#[test]
fn a_thread_that_is_woken_knows_what_the_waker_did() {
    let mut run = TargetRun::new();
    run.create([T2, T3]);
    run.thread(T3).lock(A).begin("pthread_cond_wait", &[B, A]);
    run.thread(T2).at(1).store(X).persist(X).lock(A);
    run.call("pthread_cond_signal", &[B]).unlock(A);
    run.at(3).store(Y).persist(Y);
    run.thread(T3).end("pthread_cond_wait", 0);
    run.at(2).load(X).at(4).load(Y).unlock(A);
    assert_eq!(run.races(), ["3-4"]);
}

#[test]
fn a_signal_before_the_wait_orders_nothing() {
    let mut run = TargetRun::new();
    run.create([T2, T3]);
    run.thread(T2)
        .at(1)
        .store(X)
        .persist(X)
        .call("pthread_cond_signal", &[B]);
    run.thread(T3).lock(A).begin("pthread_cond_wait", &[B, A]);
    run.end("pthread_cond_wait", 0).at(2).load(X).unlock(A);
    assert_eq!(run.races(), ["1-2"]);
}

#[test]
fn a_lock_is_not_held_while_its_thread_waits() {
    let mut run = TargetRun::new();
    run.create([T2, T3]);
    run.thread(T2).lock(A).at(1).store(X);
    run.begin("pthread_cond_wait", &[B, A])
        .end("pthread_cond_wait", 0);
    run.persist(X).at(3).store(Y).persist(Y).unlock(A);
    run.thread(T3).lock(A).at(2).load(X).at(4).load(Y).unlock(A);
    assert_eq!(run.races(), ["1-2"]);
}

#[test]
fn an_initialiser_is_done_before_anybody_continues() {
    let mut run = TargetRun::new();
    run.create([T2, T3]);
    run.thread(T2)
        .begin("pthread_once", &[A])
        .at(1)
        .store(X)
        .persist(X);
    run.end("pthread_once", 0);
    run.thread(T3).call("pthread_once", &[A]).at(2).load(X);
    assert!(run.races().is_empty());
}

#[test]
fn a_semaphore_whose_initial_value_is_more_than_one_is_no_lock() {
    let held_in_turn = |value: u64| {
        let mut run = TargetRun::new();
        run.call("sem_init", &[A, 0, value]).create([T2, T3]);
        run.thread(T2).call("sem_wait", &[A]).at(1).store(X);
        run.persist(X).call("sem_post", &[A]);
        run.thread(T3).call("sem_wait", &[A]).at(2).load(X);
        run.call("sem_post", &[A]);
        run.races()
    };
    assert!(held_in_turn(1).is_empty());
    assert_eq!(held_in_turn(2), ["1-2"]);
}

#[test]
fn a_semaphore_that_is_created_by_name_has_its_initial_value() {
    const CREATE: u64 = 0x40;
    let held_in_turn = |flags: u64| {
        let mut run = TargetRun::new();
        run.begin("sem_open", &[B, flags, 0o600, 2]);
        run.end("sem_open", A).create([T2, T3]);
        run.thread(T2).call("sem_wait", &[A]).at(1).store(X);
        run.persist(X).call("sem_post", &[A]);
        run.thread(T3).call("sem_wait", &[A]).at(2).load(X);
        run.races()
    };
    assert_eq!(held_in_turn(CREATE), ["1-2"]);
    assert!(held_in_turn(0).is_empty(), "the value is not known");
}

#[test]
fn a_wait_knows_what_happened_before_its_own_post() {
    let mut run = TargetRun::new();
    run.create([T2, T3]).thread(T2);
    run.at(1).store(X).persist(X).call("sem_post", &[A]);
    run.at(2).store(Y).persist(Y).call("sem_post", &[A]);
    run.thread(T3).call("sem_wait", &[A]).at(3).load(X);
    run.at(4).load(Y).call("sem_wait", &[A]).at(5).load(Y);
    assert_eq!(run.races(), ["2-4"]);
}

#[test]
fn a_wait_that_reaches_its_time_limit_was_not_signalled() {
    const TIMED_OUT: u64 = 110;
    let wait = "pthread_cond_timedwait";
    let mut run = TargetRun::new();
    run.create([T2, T3]);
    run.thread(T3).lock(A).begin(wait, &[B, A]);
    run.thread(T2).at(1).store(X).persist(X);
    run.call("pthread_cond_signal", &[B]);
    run.thread(T3).end(wait, TIMED_OUT).at(2).load(X).unlock(A);
    assert_eq!(run.races(), ["1-2"]);
}

#[test]
fn a_thread_that_waits_for_an_initialiser_of_a_static_variable_knows_it() {
    let mut run = TargetRun::new();
    run.create([T2, T3]);
    run.thread(T2).begin("__cxa_guard_acquire", &[A]);
    run.end("__cxa_guard_acquire", 1).at(1).store(X).persist(X);
    run.call("__cxa_guard_release", &[A]);
    run.at(3).store(Y).persist(Y);
    run.thread(T3).call("__cxa_guard_acquire", &[A]);
    run.at(2).load(X).at(4).load(Y);
    assert_eq!(run.races(), ["3-4"]);
}
