//! Whose turn it is, in small processes.

use super::*;

const WORD: u64 = 0x1000;

/// Three threads, with the contexts 1 to 3.
fn three() -> Turns {
    let mut turns = Turns::new(1, 100);
    (1..=3).for_each(|context| turns.add(context));
    turns
}

fn futex(word: u64) -> Wait {
    Wait {
        word,
        bits: !0,
        ..Wait::default()
    }
}

fn state(turns: &mut Turns, context: u64) -> State {
    turns.thread(context).unwrap().state.clone()
}

#[test]
fn a_thread_that_gives_way_comes_after_all_others() {
    let mut turns = three();
    let first = turns.next().unwrap();
    turns.give_way(first);
    let second = turns.next().unwrap();
    turns.give_way(second);
    let third = turns.next().unwrap();
    turns.give_way(third);
    assert_eq!(turns.next(), Some(first));
    let mut all = [first, second, third];
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3]);
}

#[test]
fn the_thread_that_has_waited_longest_is_woken_first() {
    let mut turns = three();
    for context in [2, 3, 1] {
        turns.begin_wait(context, futex(WORD));
    }
    assert_eq!(turns.next(), None);
    assert_eq!(turns.wake(WORD, !0, 2), 2);
    assert_eq!(state(&mut turns, 2), State::Ready);
    assert_eq!(state(&mut turns, 3), State::Ready);
    assert_eq!(state(&mut turns, 1), State::Waiting(futex(WORD)));
    assert_eq!(turns.wake(WORD, !0, 2), 1);
    assert_eq!(turns.wake(WORD, !0, 2), 0);
}

#[test]
fn only_wakes_with_a_common_bit_concern_a_thread() {
    let mut turns = three();
    let wait = Wait {
        bits: 2,
        ..futex(WORD)
    };
    turns.begin_wait(1, wait);
    assert_eq!(turns.wake(WORD, 1, 9), 0);
    assert_eq!(turns.wake(WORD, 3, 9), 1);
}

#[test]
fn requeued_threads_are_woken_at_their_new_futex() {
    let mut turns = three();
    turns.begin_wait(1, futex(WORD));
    turns.begin_wait(2, futex(WORD));
    assert_eq!(turns.requeue(WORD, WORD + 8, 1), 1);
    assert_eq!(turns.wake(WORD, !0, 9), 1);
    assert_eq!(state(&mut turns, 2), State::Ready);
    assert_eq!(turns.wake(WORD + 8, !0, 9), 1);
}

#[test]
fn waits_end_in_the_order_of_their_deadlines() {
    let mut turns = three();
    for (context, deadline) in [(1, 30), (2, 10), (3, 20)] {
        let deadline = Some(deadline);
        turns.begin_wait(
            context,
            Wait {
                deadline,
                ..Wait::default()
            },
        );
    }
    let mut order = Vec::new();
    while let Some(deadline) = turns.first_deadline() {
        turns.time = deadline;
        turns.expire();
        let next = turns.next().unwrap();
        assert_eq!(turns.thread(next).unwrap().wakeup, Wakeup::TimedOut);
        order.push(next);
        turns.remove(next);
    }
    assert_eq!(order, [2, 3, 1]);
}

#[test]
fn preemptions_happen_at_their_steps() {
    let mut turns = three();
    let first = turns.next().unwrap();
    turns.steps = turns.steps_to_preemption().unwrap() - 1;
    turns.step(first);
    assert_eq!(turns.next(), Some(first));
    turns.steps += 1;
    turns.step(first);
    assert_ne!(turns.next(), Some(first));
}

#[test]
fn only_descriptors_and_calls_of_the_kernel_await_the_outside() {
    let mut turns = three();
    turns.begin_wait(1, futex(WORD));
    assert!(!turns.awaits_outside());
    turns.thread(2).unwrap().state = State::Outside;
    assert!(turns.awaits_outside());
    turns.thread(2).unwrap().state = State::Ready;
    let descriptors = alloc::vec![WaitedDescriptor::default()];
    turns.begin_wait(
        3,
        Wait {
            descriptors,
            ..Wait::default()
        },
    );
    assert!(turns.awaits_outside());
}
