//! What a run shows in which threads are held.

use crate::target_run::*;

#[test]
fn a_reader_that_waits_for_a_lock_or_semaphore_of_the_held_thread_is_blocked() {
    for (take, give) in [
        ("pthread_mutex_lock", "pthread_mutex_unlock"),
        ("sem_wait", "sem_post"),
    ] {
        let mut run = TargetRun::new();
        run.forced = Some((1, 2));
        run.create([T2, T3]);
        run.thread(T2).call(take, &[A]).at(1).store(X);
        run.thread(T3).begin(take, &[A]);
        run.thread(T2).persist(X).call(give, &[A]);
        run.thread(T3).end(take, 0).at(2).load(X).call(give, &[A]);
        assert_eq!(run.finish().forced.blocking.len(), 1, "{take}");
    }
}
