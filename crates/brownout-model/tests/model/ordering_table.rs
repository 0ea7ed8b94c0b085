//! Jaaru's Table 1 (that of Px86), one test per row: which instruction is ordered before which later one, as far as a
//! crash can show it. `mfence` and `sfence` differ only in their effect on loads, which a crash does not show, so they
//! share a row.

use crate::litmus::litmus;
use crate::program::Op::{Clflush, Clwb, Fence, Read};
use crate::program::{Offset, Op, X, X2, Y, Z, locked, store};

const ALL: &[[u8; 2]] = &[[0, 0], [0, 1], [1, 0], [1, 1]];
const IN_ORDER: &[[u8; 2]] = &[[0, 0], [1, 0], [1, 1]];

/// The order of two instructions: always, never, or in one cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Kept,
    Open,
    InLine,
}

#[test]
fn programs_execute_in_the_orders_of_the_table() {
    use Order::{InLine, Kept, Open};
    let read = |at: Offset| Read(at, 0);
    let write = |at| store(at, 1);
    let rmw = |at| locked(at, 1);
    let fence = |_| Fence;
    let instructions: [&dyn Fn(Offset) -> Op; 6] = [&read, &write, &rmw, &fence, &Clwb, &Clflush];
    // Rows are earlier, columns later. A write and a later read of one line stay in order here: what a thread reads of its own
    // store buffer is what it stored.
    let table = [
        [Kept, Kept, Kept, Kept, Kept, Kept],
        [InLine, Kept, Kept, Kept, InLine, Kept],
        [Kept, Kept, Kept, Kept, Kept, Kept],
        [Kept, Kept, Kept, Kept, Kept, Kept],
        [Open, Open, Kept, Kept, Open, InLine],
        [Open, Kept, Kept, Kept, InLine, Kept],
    ];
    for (row, earlier) in table.iter().zip(instructions) {
        for (&expected, later) in row.iter().zip(instructions) {
            let found = [X2, Y].map(|at| earlier(X).precedes(&later(at)));
            let order = match found {
                [true, true] => Kept,
                [true, false] => InLine,
                [false, _] => Open,
            };
            assert_eq!(order, expected, "{:?}, {:?}", earlier(X), later(X2));
        }
    }
}

#[test]
fn a_read_is_ordered_before_everything_later() {
    // The thread that has read the store flushes it.
    let reader = [Read(X, 1), Clwb(X), Fence, store(Y, 1)];
    litmus(&[&[store(X, 1)], &reader], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
    let reader = [Read(X, 1), Clflush(X), store(Y, 1)];
    litmus(&[&[store(X, 1)], &reader], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn writes_persist_in_order_only_within_a_line() {
    litmus(&[&[store(X, 1), store(Y, 1)]], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
    litmus(&[&[store(X, 1), store(X2, 1)]], [X, X2])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(IN_ORDER);
}

#[test]
fn a_write_is_ordered_before_a_later_clflushopt_only_of_its_line() {
    litmus(&[&[store(X, 1), Clwb(X), Fence, store(Y, 1)]], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
    litmus(&[&[store(X, 1), Clwb(Z), Fence, store(Y, 1)]], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn a_clflushopt_does_not_cover_later_writes() {
    litmus(&[&[Clwb(X), store(X, 1), Fence, store(Y, 1)]], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn a_locked_instruction_is_a_write_ordered_before_a_clflushopt() {
    litmus(&[&[locked(X, 1), Clwb(X), Fence, store(Y, 1)]], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
    // Being locked does not make its own store persistent.
    litmus(&[&[locked(X, 1), locked(Y, 1)]], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn a_fence_alone_makes_nothing_persistent() {
    litmus(&[&[store(X, 1), Fence, store(Y, 1)]], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
    // A flush after the fence needs another fence.
    litmus(&[&[store(X, 1), Fence, Clwb(X), store(Y, 1)]], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn a_clflushopt_is_not_ordered_before_a_later_write() {
    litmus(&[&[store(X, 1), Clwb(X), store(Y, 1)]], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn a_clflushopt_is_ordered_before_a_later_fence_or_locked_instruction() {
    for fence in [Fence, locked(Z, 1)] {
        litmus(&[&[store(X, 1), Clwb(X), fence, store(Y, 1)]], [X, Y])
            .adr(IN_ORDER)
            .eadr_and_gpf(IN_ORDER)
            .msync(ALL);
    }
    // The store of the locked instruction comes after its fence effect.
    litmus(&[&[store(X, 1), Clwb(X), locked(Y, 1)]], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn two_clflushopts_are_not_ordered() {
    let program = [store(X, 1), store(Y, 1), Clwb(X), Clwb(Y)];
    litmus(&[&program], [X, Y])
        .at_the_end()
        .adr(ALL)
        .eadr_and_gpf(&[[1, 1]])
        .msync(ALL);
}

#[test]
fn a_clflushopt_is_ordered_before_a_later_clflush_only_of_its_line() {
    let program = [store(X, 1), Clwb(X), Clflush(X), store(Y, 1)];
    litmus(&[&program], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
    let program = [store(X, 1), store(Z, 1), Clwb(X), Clflush(Z), store(Y, 1)];
    litmus(&[&program], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn a_clflush_is_ordered_before_every_later_write() {
    litmus(&[&[store(X, 1), Clflush(X), store(Y, 1)]], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn a_clflush_is_ordered_before_and_after_a_locked_instruction() {
    litmus(&[&[locked(X, 1), Clflush(X), store(Y, 1)]], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
    litmus(&[&[store(X, 1), Clflush(X), locked(Y, 1)]], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn two_clflushes_are_ordered() {
    let program = [
        store(Y, 1),
        store(X, 1),
        Clflush(X),
        Clflush(Y),
        store(Z, 1),
    ];
    litmus(&[&program], [X, Y, Z])
        .adr(&[[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]])
        .eadr_and_gpf(&[[0, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1]])
        .msync(&[
            [0, 0, 0],
            [0, 0, 1],
            [0, 1, 0],
            [0, 1, 1],
            [1, 0, 0],
            [1, 0, 1],
            [1, 1, 0],
            [1, 1, 1],
        ]);
}
