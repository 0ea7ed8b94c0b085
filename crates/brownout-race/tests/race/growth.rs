//! How the work grows with the length of a run.

use crate::target_run::*;

/// How often accesses are compared in a run of as many rounds.
fn comparisons(rounds: usize, round: impl Fn(&mut TargetRun)) -> u64 {
    let mut run = TargetRun::new();
    run.create([T2, T3]);
    for _ in 0..rounds {
        round(&mut run);
    }
    run.finish().counts.comparisons
}

fn is_linear(round: impl Fn(&mut TargetRun) + Copy) {
    let (few, many) = (comparisons(50, round), comparisons(400, round));
    assert!(few > 0 && many <= 9 * few, "{few}, {many}");
}

#[test]
fn a_line_that_is_used_in_rounds_between_barriers_takes_time_for_each_round_once() {
    is_linear(|run| {
        run.thread(T2).at(1).store(X).persist(X);
        run.thread(T3).at(2).load(X);
        for thread in [T2, T3] {
            run.thread(thread).begin("pthread_barrier_wait", &[A]);
        }
        for thread in [T2, T3] {
            run.thread(thread).end("pthread_barrier_wait", 0);
        }
    });
}

/// `T2` gets to know something else each time, stores, and hands on to `T3`.
fn hand_over(run: &mut TargetRun) {
    run.thread(T1).call("sem_post", &[B]);
    run.thread(T2).call("sem_wait", &[B]);
    run.at(1).store(X).persist(X).call("sem_post", &[A]);
    run.thread(T3).call("sem_wait", &[A]).at(2).load(X);
}

#[test]
fn a_line_that_one_thread_hands_to_another_takes_time_for_each_round_once() {
    is_linear(hand_over);
}

#[test]
fn all_concurrent_pairs_are_counted() {
    let mut run = TargetRun::new();
    run.create([T2, T3]);
    for _ in 0..10 {
        hand_over(&mut run);
    }
    // A load can be concurrent with all stores of later rounds.
    assert_eq!(run.finish().races[0].count, 45);
}
