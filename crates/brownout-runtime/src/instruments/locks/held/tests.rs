//! What is a lock: one thread's operations on words, and the events that they lead to.

use super::*;
use crate::instruments::locks::operation::Change::*;
use std::collections::{HashMap, HashSet};
use std::vec::Vec;

const WORD: u64 = 0x1000;
const PC: u64 = 0x40;

/// Memory, what other threads did, and what was reported.
#[derive(Default)]
struct World {
    memory: HashMap<u64, u64>,
    others: HashMap<u64, ChangeByOthers>,
    published: HashSet<u64>,
    events: Vec<LockEvent>,
}

impl Surroundings for World {
    fn place(&mut self, word: u64) -> u64 {
        word
    }

    fn load(&mut self, aligned: u64) -> Option<u64> {
        Some(self.memory.get(&aligned).copied().unwrap_or(0))
    }

    fn change_by_others(&mut self, word: u64) -> Option<ChangeByOthers> {
        self.others.get(&word).copied()
    }

    fn set_published(&mut self, word: u64) {
        self.published.insert(word);
    }

    fn is_published(&mut self, word: u64) -> bool {
        self.published.contains(&word)
    }

    fn is_worthwhile(&mut self, _pc: u64) -> bool {
        true
    }

    fn forgotten(&mut self) {}

    fn event(&mut self, event: LockEvent) {
        self.events.push(event);
    }
}

/// A thread and its surroundings.
struct Run {
    world: World,
    held: HeldLocks,
    size: u8,
}

impl Run {
    fn new(size: u8, value: u64) -> Run {
        let mut world = World::default();
        world.memory.insert(WORD, value);
        let held = HeldLocks::new();
        Run { world, held, size }
    }

    /// The thread makes an operation on the word.
    fn does(mut self, change: Change) -> Run {
        let op = AtomicOperation {
            word: WORD,
            size: self.size,
            pc: PC,
            change,
        };
        let before = self.world.memory[&WORD];
        self.world.memory.insert(WORD, op.after(before));
        self.world.others.remove(&WORD);
        self.held.operation(&op, &mut self.world);
        self
    }

    /// Somebody stores to the word.
    fn stores(mut self, value: u64) -> Run {
        self.world.memory.insert(WORD, value);
        self
    }

    /// Another thread exchanges the word.
    fn other(mut self, old: u64, new: u64, compared: bool) -> Run {
        self.world.memory.insert(WORD, new);
        let change = ChangeByOthers { old, new, compared };
        self.world.others.insert(WORD, change);
        self
    }

    /// An event of persistent memory.
    fn event(mut self) -> Run {
        self.held.check(&mut self.world);
        self.held.report(&mut self.world);
        self
    }

    /// A letter for each event: `A` and `R` for acquire and release, small if shared.
    fn letters(self) -> String {
        let letter = |event: &LockEvent| match *event {
            LockEvent::Acquire { shared: false, .. } => 'A',
            LockEvent::Acquire { shared: true, .. } => 'a',
            LockEvent::Release { shared: false, .. } => 'R',
            LockEvent::Release { shared: true, .. } => 'r',
        };
        self.world.events.iter().map(letter).collect()
    }
}

fn compare(old: u64, new: u64) -> Change {
    CompareExchange { old, new }
}

fn exchange(old: u64, new: u64) -> Change {
    Exchange { old, new }
}

#[test]
fn a_spin_lock_is_released_by_a_plain_store() {
    let run = Run::new(1, 0).does(exchange(0, 1)).event().event();
    assert_eq!(run.stores(0).event().letters(), "AR");
}

#[test]
fn a_release_says_whether_exchanges_have_acquired_and_released_the_word() {
    let exchanged = |run: Run| match run.event().world.events[..] {
        [
            LockEvent::Acquire { size, .. },
            LockEvent::Release { exchanged, .. },
        ] => (size, exchanged),
        ref other => panic!("{other:?}"),
    };
    let taken = || Run::new(1, 0).does(exchange(0, 1)).event();
    assert_eq!(exchanged(taken().does(exchange(1, 0))), (1, true));
    assert_eq!(exchanged(taken().stores(0)), (1, false));
    let compared = Run::new(4, 0).does(compare(0, 1)).event();
    assert_eq!(exchanged(compared.does(exchange(1, 0))), (4, false));
}

#[test]
fn an_exchange_that_finds_the_lock_taken_acquires_nothing() {
    let run = Run::new(4, 1).does(exchange(1, 1)).event();
    assert_eq!(run.does(exchange(1, 2)).event().letters(), "");
}

#[test]
fn a_critical_section_without_events_has_none() {
    let run = Run::new(4, 0).does(exchange(0, 1)).stores(0).event();
    assert_eq!(run.letters(), "");
}

#[test]
fn a_version_that_advances_is_a_release() {
    let bump = Run::new(8, 6).does(compare(6, 7)).event();
    assert_eq!(bump.stores(8).event().letters(), "AR");
    let optimistic = Run::new(8, 8).does(compare(8, 10)).event();
    assert_eq!(optimistic.does(Add(2)).event().letters(), "AR");
}

#[test]
fn other_bits_may_change_while_a_lock_bit_is_held() {
    let run = Run::new(4, 0x100).does(compare(0x100, 0x101)).event();
    let run = run.stores(0x105).event().stores(0x300).event();
    assert_eq!(run.letters(), "AR");
}

#[test]
fn bits_are_set_and_cleared_by_bit_instructions() {
    let run = Run::new(8, 0b1010).does(SetBit(4)).event();
    assert_eq!(run.does(And(!4)).event().letters(), "AR");
}

#[test]
fn two_locks_in_one_word_are_two_locks_of_two_threads() {
    let run = Run::new(8, 0).does(SetBit(1)).event();
    // Another thread sets another bit: nothing is known of the rest.
    let run = run.other(!32, !0, false).stores(33).event();
    assert_eq!(run.does(And(!1)).event().letters(), "AR");
}

#[test]
fn counting_up_and_down_is_a_shared_lock() {
    let run = Run::new(4, 0).does(Add(4)).event();
    let down = 4u64.wrapping_neg() & 0xffff_ffff;
    assert_eq!(run.does(Add(down)).event().letters(), "ar");
}

#[test]
fn a_reader_that_compares_is_shared_once_it_counts_down() {
    let down = 0xffff_ffff;
    let first = Run::new(4, 0).does(compare(0, 1)).event();
    assert_eq!(first.does(Add(down)).event().letters(), "Ar");
    let second = Run::new(4, 1).does(compare(1, 2)).event();
    assert_eq!(second.does(Add(down)).event().letters(), "ar");
}

#[test]
fn a_first_reader_stays_one_while_others_come_and_go() {
    let run = Run::new(4, 0).does(compare(0, 1)).event();
    let run = run.other(1, 2, true).event().stores(1).event();
    assert_eq!(run.does(Add(0xffff_ffff)).event().letters(), "Ar");
}

#[test]
fn a_writer_that_sets_and_subtracts_many_bits_is_exclusive() {
    let all = (1 << 30) - 1;
    let run = Run::new(4, 0).does(compare(0, all)).event();
    let run = run.does(Add(all.wrapping_neg() & 0xffff_ffff));
    assert_eq!(run.event().letters(), "AR");
}

#[test]
fn a_waiting_thread_may_leave_a_mark() {
    let run = Run::new(4, 0).does(compare(0, 1)).event();
    let run = run.other(1, 2, false).event().event();
    assert_eq!(run.does(exchange(2, 0)).event().letters(), "AR");
}

#[test]
fn a_lock_that_another_thread_has_acquired_was_released() {
    let run = Run::new(4, 0).does(exchange(0, 1)).event();
    assert_eq!(run.other(0, 1, false).event().letters(), "AR");
}

#[test]
fn a_lock_that_is_taken_again_was_released_in_between() {
    let run = Run::new(4, 0).does(exchange(0, 1)).event();
    let run = run.stores(0).does(exchange(0, 1)).event();
    assert_eq!(run.stores(0).event().letters(), "ARAR");
}

#[test]
fn a_published_pointer_is_no_lock() {
    let (first, second) = (0x7f00_1234_5670, 0x7f00_1234_56f0);
    let push = Run::new(8, 0).does(compare(0, first)).event();
    let push = push.does(compare(first, second)).event();
    assert_eq!(push.letters(), "A");
    let popped = Run::new(8, 0).does(compare(0, first)).event();
    let popped = popped.does(compare(first, 0)).event();
    assert_eq!(popped.letters(), "A");
}

#[test]
fn offsets_of_neighbours_are_no_lock_bits() {
    let run = Run::new(8, 0x1000).does(compare(0x1000, 0x1040)).event();
    assert_eq!(run.does(compare(0x1040, 0x1000)).event().letters(), "A");
    let run = Run::new(8, 0x1000).does(compare(0x1000, 0x1040)).event();
    assert_eq!(run.does(compare(0x1040, 0x1080)).event().letters(), "A");
}

#[test]
fn a_word_that_holds_published_values_is_never_a_lock() {
    let run = Run::new(8, 0x35).does(compare(0x35, 0x4a)).event();
    let run = run.does(compare(0x4a, 0x4b)).event();
    assert_eq!(run.does(compare(0x4b, 0x4a)).event().letters(), "");
}

#[test]
fn a_flag_that_is_exchanged_both_ways_by_comparisons_is_a_lock() {
    let run = Run::new(1, 0).does(compare(0, 1)).event();
    assert_eq!(run.does(compare(1, 0)).event().letters(), "AR");
}

#[test]
fn a_forked_process_reports_what_it_holds() {
    let mut run = Run::new(4, 0).does(exchange(0, 1)).event();
    run.held.forked(|_| true);
    assert_eq!(run.event().stores(0).event().letters(), "AAR");
}

#[test]
fn the_latest_acquires_are_remembered() {
    let mut run = Run::new(4, 0);
    for word in 0..MAX_HELD as u64 + 4 {
        let op = AtomicOperation {
            word: 0x2000 + 8 * word,
            size: 4,
            pc: PC,
            change: exchange(0, 1),
        };
        run.world.memory.insert(op.word, 1);
        run.held.operation(&op, &mut run.world);
    }
    let words: Vec<u64> = run.held.iter().map(Held::word).collect();
    let expected: Vec<u64> = (4..MAX_HELD as u64 + 4).map(|at| 0x2000 + 8 * at).collect();
    assert_eq!(words, expected);
}
