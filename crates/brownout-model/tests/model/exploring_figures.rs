//! The examples of Jaaru (ASPLOS'21, §3) by lazy exploration, and what it lacks: recurring values, own bytes, loads over several
//! lines, crashes inside of recovery. Table 1 is tested in `ordering_table`, whose litmus tests also read what they show.

use std::collections::BTreeSet;

use brownout_model::{LINE, PossibleMemory, Profile, ReadSource, Tearing, Time};

use crate::exploring::{Action, ExploredRun, Reads, address, crashed, explore, history};
use crate::program::Op::{Clflush, Clwb, Fence};
use crate::program::{NEAR_X, Offset, Op, Step, X, X2, Y, nt_store, store};

fn thread(ops: &[Op]) -> Vec<Step> {
    ops.iter().map(|op| (0, op.clone())).collect()
}

/// The runs of a recovery of loads, stores and flushes, at each crash time.
fn explored(ops: &[Op], actions: &[Action], depth: usize) -> Vec<Vec<ExploredRun>> {
    let history = history(Profile::ADR, Tearing::Whole, &thread(ops));
    let actions: Vec<(usize, Action)> = actions.iter().map(|action| (0, action.clone())).collect();
    let times = history.crash_times().iter();
    times
        .map(|&time| explore(&history, time, depth, &actions))
        .collect()
}

/// The reads of the runs after the last crash time, each a byte.
fn at_the_end(ops: &[Op], loads: &[Offset]) -> Vec<Vec<u8>> {
    let loads: Vec<Action> = loads.iter().map(|&at| Action::Load(at, 1)).collect();
    let runs = explored(ops, &loads, 1)
        .pop()
        .expect("the end is a crash time");
    let mut found: Vec<Vec<u8>> = runs.iter().map(|run| values(&run.reads)).collect();
    found.sort();
    found
}

fn values(reads: &Reads) -> Vec<u8> {
    reads.concat()
}

/// Fig. 2; y is in the line of x.
fn running_example() -> [Op; 7] {
    let y = X2;
    [
        store(y, 1),
        store(X, 2),
        Clflush(X),
        store(y, 3),
        store(X, 4),
        store(y, 5),
        store(X, 6),
    ]
}

#[test]
fn the_running_example_reads_three_values() {
    assert_eq!(at_the_end(&running_example(), &[X]), [[2], [4], [6]]);
}

#[test]
fn a_value_read_narrows_the_rest_of_its_line() {
    // Fig. 3: x = 4 implies that y is 3 or 5.
    assert_eq!(
        at_the_end(&running_example(), &[X, X2]),
        [[2, 1], [2, 3], [4, 3], [4, 5], [6, 5]]
    );
}

#[test]
fn a_load_of_the_running_example_has_three_sources() {
    let history = history(Profile::ADR, Tearing::Whole, &thread(&running_example()));
    let possible = crashed(&history, history.crash_times()[1]);
    let from = |issued| ReadSource::Store {
        run: 0,
        issued: Time(issued),
    };
    let expected = [ReadSource::Settled, from(5), from(7)];
    assert_eq!(possible.sources(address(X), 1), expected.into());
    assert_eq!(
        possible.sources(address(Y), 8),
        [ReadSource::Settled].into()
    );
}

#[test]
fn a_commit_store_needs_four_executions() {
    // Fig. 4: the data of the child is at X, the pointer to it at Y.
    let add_child = [store(X, 7), Clflush(X), store(Y, 1), Clflush(Y)];
    let read_child = [Action::Load(Y, 1), Action::SkipIf(0), Action::Load(X, 1)];
    // Before each clflush, and at the end.
    let history = history(Profile::ADR, Tearing::Whole, &thread(&add_child));
    let points: Vec<u64> = history
        .crash_times()
        .iter()
        .map(|time| time.before.0)
        .collect();
    assert_eq!(points, [2, 4, 5]);
    let runs = explored(&add_child, &read_child, 1);
    let reads: Vec<Vec<Vec<u8>>> = runs
        .iter()
        .map(|runs| runs.iter().map(|run| values(&run.reads)).collect())
        .collect();
    assert_eq!(
        reads,
        [vec![vec![0]], vec![vec![1, 7], vec![0]], vec![vec![1, 7]]]
    );
}

#[test]
fn without_a_commit_store_every_state_is_an_execution() {
    // Fig. 4 without the check of line 10: the data of the child is in four lines, which recovery reads at once.
    let lines = [0, 1, 2, 3].map(|line| Y + line * LINE);
    let data = lines.map(|line| store(line, 7));
    let flushes = lines.map(Clflush);
    let add_child = [&data[..], &flushes].concat();
    let loads = lines.map(|line| Action::Load(line, 1));
    let runs = explored(&add_child, &loads, 1);
    let executions: Vec<usize> = runs.iter().map(Vec::len).collect();
    // Nothing is stored after the first clflush, so that its crash has the states of all others.
    assert_eq!(executions, [16, 1]);
}

#[test]
fn commit_stores_keep_the_work_linear() {
    // Each round persists an entry and then the count of entries; recovery reads the entries that are counted.
    let rounds = 6;
    let entry = |round: u8| Y + u64::from(round) * LINE;
    let program: Vec<Op> = (1..=rounds)
        .flat_map(|round| {
            let entry = entry(round);
            [
                store(entry, 9),
                Clwb(entry),
                Fence,
                store(X, round),
                Clwb(X),
                Fence,
            ]
        })
        .collect();
    let loads = (1..=rounds).map(|round| Action::Load(entry(round), 1));
    let recovery: Vec<Action> = [Action::Load(X, 1)].into_iter().chain(loads).collect();
    let runs = explored(&program, &recovery, 1);
    assert_eq!(runs.len(), 2 * usize::from(rounds) + 1);
    assert!(runs.iter().all(|runs| runs.len() <= 2));
}

#[test]
fn equal_bytes_are_no_choice() {
    let program = [store(X, 1), Clflush(X), store(X, 1), store(X, 1)];
    assert_eq!(at_the_end(&program, &[X]), [[1]]);
}

#[test]
fn a_recurring_value_keeps_all_states_that_show_it() {
    // x goes 0, 1, 0: if it reads 0, y is from before x became 1 or from after it became 0.
    let program = [
        store(X2, 1),
        store(X, 1),
        store(X2, 2),
        store(X, 0),
        store(X2, 3),
    ];
    assert_eq!(
        at_the_end(&program, &[X, X2]),
        [[0, 0], [0, 1], [0, 2], [0, 3], [1, 1], [1, 2]]
    );
    let program = [store(X, 1), store(X2, 1), store(X, 0)];
    assert_eq!(
        at_the_end(&program, &[X, X2]),
        [[0, 0], [0, 1], [1, 0], [1, 1]]
    );
}

#[test]
fn a_load_over_two_lines_is_one_choice_of_joint_bytes() {
    let program = thread(&[Op::Store(LINE - 1, vec![1, 2]), store(LINE - 1, 3)]);
    let history = history(Profile::ADR, Tearing::Whole, &program);
    let possible = crashed(&history, history.crash_times()[0]);
    let classes = possible.may_read(address(LINE - 1), 2);
    let bytes: BTreeSet<Vec<u8>> = classes.iter().map(|class| class.bytes).collect();
    let expected = [[0, 0], [0, 2], [1, 0], [1, 2], [3, 0], [3, 2]];
    assert_eq!(bytes, expected.map(Vec::from).into());
    assert_eq!((classes.count(), classes.certain()), (6, None));
    assert_eq!(possible.may_read(address(Y), 2).certain(), Some(vec![0, 0]));
}

#[test]
fn bytes_that_recovery_wrote_are_its_own() {
    let program = [Op::Store(X, vec![1; 4])];
    let recovery = [
        Action::Do(store(X + 1, 9)),
        Action::Load(X + 1, 1),
        Action::Load(X, 4),
    ];
    let runs = &explored(&program, &recovery, 1)[0];
    let reads: Vec<Vec<u8>> = runs.iter().map(|run| values(&run.reads)).collect();
    assert_eq!(reads, [[9, 1, 9, 1, 1], [9, 0, 9, 0, 0]]);
}

#[test]
fn non_temporal_stores_are_chosen_independently() {
    let program = [nt_store(X, 1), nt_store(X2, 1), store(NEAR_X, 1)];
    let all = (0..8).map(|state| [state >> 2, state >> 1 & 1, state & 1]);
    let all: Vec<[u8; 3]> = all.collect();
    assert_eq!(at_the_end(&program, &[X, X2, NEAR_X]), all);
}

#[test]
fn what_a_recovery_read_stays_true_after_its_crash() {
    // Recovery reads x, then stores y and crashes: the next one reads the same x, and y or what y was before.
    let program = [store(X, 1)];
    let recovery = [
        Action::Load(X, 1),
        Action::Load(Y, 1),
        Action::Do(store(Y, 5)),
        Action::Do(Clwb(Y)),
        Action::Do(Fence),
    ];
    let mut runs: Vec<(usize, Vec<u8>)> = explored(&program, &recovery, 2)
        .pop()
        .expect("the end is a crash time")
        .iter()
        .map(|run| (run.crashes.len(), values(&run.reads)))
        .collect();
    runs.sort();
    let twice = |x: u8| [(2, vec![x, 0]), (2, vec![x, 5])];
    let expected = [(1, vec![0, 0]), (1, vec![1, 0])];
    assert_eq!(runs[..2], expected);
    assert_eq!(runs[2..], [twice(0), twice(1)].concat());
}

#[test]
fn a_lost_store_of_recovery_shows_older_bytes() {
    // The target leaves 0, 1 or 2; recovery overwrites it, and its store may be lost.
    let program = [store(X, 1), store(X, 2)];
    let recovery = [
        Action::Load(X, 1),
        Action::Do(store(X, 7)),
        Action::Do(Clflush(X)),
    ];
    let runs = explored(&program, &recovery, 2).pop().expect("the end");
    let mut found: Vec<(usize, Vec<u8>)> = runs
        .iter()
        .map(|run| (run.crashes.len(), values(&run.reads)))
        .collect();
    found.sort();
    // The second recovery reads 7, or what the first one read.
    let second = [[0], [1], [2], [7], [7], [7]].map(|value| (2, value.to_vec()));
    assert_eq!(found[3..], second);
}

#[test]
fn a_torn_store_shows_each_word_separately() {
    let wide = |value| (0, Op::Store(X, vec![value; 16]));
    let history = history(Profile::ADR, Tearing::Words, &[wide(1), wide(2)]);
    let possible = crashed(&history, history.crash_times()[0]);
    let words = |possible: &PossibleMemory| -> BTreeSet<[u8; 2]> {
        let classes = possible.may_read(address(X), 16);
        let words = classes.iter().map(|class| [class.bytes[0], class.bytes[8]]);
        words.collect()
    };
    // The second store starts only after the first one is complete.
    let all = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [2, 1], [2, 2]];
    assert_eq!(words(&possible), all.into());
    let mut narrowed = possible.clone();
    let classes = possible.may_read(address(X2), 8);
    let one = classes.iter().find(|class| class.bytes[0] == 1);
    narrowed.choose(&one.expect("the first store alone"));
    assert_eq!(words(&narrowed), [[0, 1], [1, 1], [2, 1]].into());
}

#[test]
fn a_lock_that_is_never_flushed_is_two_choices() {
    let lock: Vec<Op> = (0..3000).map(|at| store(X, (at % 2) as u8 + 1)).collect();
    assert_eq!(at_the_end(&lock, &[X, X]), [[0, 0], [1, 1], [2, 2]]);
}
