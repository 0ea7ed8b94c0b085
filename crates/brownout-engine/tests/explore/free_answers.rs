//! Processes that answer questions themselves, with what the file holds.

use brownout_engine::explore::{ALL_FREE, BranchEnd, ExplorationStep, ExploredTarget, Question};

use crate::fixture::{Recovery, exited};

/// Adds words up and prints the first.
const SUM: &str = "uint64_t sum = 0; uint64_t n = pool[0];
    for (uint64_t i = 1; i <= n; i++) sum += pool[i];
    printf(\"%lu %lu\\n\", n, sum); return sum % 100;";

/// Lets a copy of the process that waits at the first question run to its end, with the bytes of the file. Also returns the offsets of
/// the questions that it has answered itself.
fn run_freely(
    target: &mut ExploredTarget,
    question: &Question,
    first: u64,
) -> (BranchEnd, Vec<u64>) {
    let mut offsets = Vec::new();
    let answer = first.to_le_bytes();
    let (mut step, free) = target
        .answer_freely(question.branch, &answer, true, ALL_FREE)
        .unwrap();
    offsets.extend(free.iter().map(|question| question.offset));
    loop {
        let asked = match step {
            ExplorationStep::End(end) => return (end, offsets),
            ExplorationStep::Question(asked) => asked,
            ExplorationStep::RunAnew(effect) => panic!("{effect}"),
        };
        // There was no room to note more.
        offsets.push(asked.offset);
        let word = (asked.offset / 8).to_le_bytes();
        let (next, free) = target
            .answer_freely(asked.branch, &word, false, ALL_FREE)
            .unwrap();
        offsets.extend(free.iter().map(|question| question.offset));
        step = next;
    }
}

#[test]
fn a_process_reads_what_the_file_holds_and_says_what_it_has_read() {
    let recovery = Recovery::new(SUM);
    recovery.write_words(0, 0..2001);
    let (mut target, step) = recovery.start(&[(0, 8 * 2001)]);
    let ExplorationStep::Question(question) = step else {
        panic!("{step:?}");
    };
    let (end, offsets) = run_freely(&mut target, &question, 2000);
    assert_eq!(end.output_of(1), b"2000 2001000\n");
    let all: Vec<u64> = (1..=2000).map(|word| 8 * word).collect();
    assert_eq!(offsets, all);
    assert_eq!(target.waiting(), 1, "the first process waits");
}

#[test]
fn copies_read_what_the_file_holds_when_they_run() {
    let recovery = Recovery::new(SUM);
    let (mut target, step) = recovery.start(&[(0, 32)]);
    let ExplorationStep::Question(question) = step else {
        panic!("{step:?}");
    };
    for words in [[1, 2, 3], [10, 20, 30], [0, 0, 7]] {
        recovery.write_words(1, words);
        let (end, _) = run_freely(&mut target, &question, 3);
        let sum: u64 = words.iter().sum();
        assert_eq!(end.output_of(1), format!("3 {sum}\n").as_bytes());
        assert_eq!(end.end, exited(sum as i32));
    }
}

#[test]
fn a_process_asks_again_after_so_many_questions() {
    let recovery = Recovery::new(SUM);
    recovery.write_words(1, [1, 2, 3, 4]);
    let (mut target, step) = recovery.start(&[(0, 40)]);
    let ExplorationStep::Question(question) = step else {
        panic!("{step:?}");
    };
    let first = 4u64.to_le_bytes();
    let (step, free) = target
        .answer_freely(question.branch, &first, false, 2)
        .unwrap();
    let offsets: Vec<u64> = free.iter().map(|question| question.offset).collect();
    assert_eq!(offsets, [8, 16]);
    assert!(free.iter().all(|question| question.open == [true; 8]));
    let ExplorationStep::Question(third) = step else {
        panic!("{step:?}");
    };
    assert_eq!((third.offset, third.len), (24, 8));
    // What was read stays, whatever the file holds later.
    recovery.write_words(1, [50, 50, 50, 5]);
    let (step, free) = target
        .answer_freely(third.branch, &9u64.to_le_bytes(), false, ALL_FREE)
        .unwrap();
    let ExplorationStep::End(end) = step else {
        panic!("{step:?}");
    };
    assert_eq!(free.len(), 1);
    assert_eq!(end.output_of(1), b"4 17\n");
}
