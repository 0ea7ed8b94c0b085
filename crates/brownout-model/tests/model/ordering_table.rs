//! Jaaru's Table 1 (that of Px86), a test for each of its rows: which earlier instruction keeps its place before
//! which later one, as far as a crash can tell. `mfence` and `sfence` differ only towards loads, which
//! leave nothing behind, so that their rows are one.

use crate::litmus::litmus;
use crate::program::Op::{Clflush, Clwb, Fence, Read};
use crate::program::{X, X2, Y, Z, locked, store};

const ALL: &[[u8; 2]] = &[[0, 0], [0, 1], [1, 0], [1, 1]];
const IN_ORDER: &[[u8; 2]] = &[[0, 0], [1, 0], [1, 1]];

#[test]
fn a_read_comes_before_everything_later() {
    // Whoever saw the store flushes it.
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
fn writes_reach_the_cache_in_order_but_persist_so_only_within_a_line() {
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
fn a_write_comes_before_a_later_clflushopt_of_its_own_line_only() {
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
fn a_write_after_a_clflushopt_of_its_line_is_not_part_of_it() {
    litmus(&[&[Clwb(X), store(X, 1), Fence, store(Y, 1)]], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn a_locked_instruction_is_a_write_and_comes_before_a_clflushopt() {
    litmus(&[&[locked(X, 1), Clwb(X), Fence, store(Y, 1)]], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
    // Its own store is not made persistent by being locked.
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
    // A flush after the fence waits for another one.
    litmus(&[&[store(X, 1), Fence, Clwb(X), store(Y, 1)]], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn a_clflushopt_does_not_come_before_a_later_write() {
    litmus(&[&[store(X, 1), Clwb(X), store(Y, 1)]], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn a_clflushopt_comes_before_a_later_fence_or_locked_instruction() {
    for fence in [Fence, locked(Z, 1)] {
        litmus(&[&[store(X, 1), Clwb(X), fence, store(Y, 1)]], [X, Y])
            .adr(IN_ORDER)
            .eadr_and_gpf(IN_ORDER)
            .msync(ALL);
    }
    // The store of the locked instruction is after the fence that it is.
    litmus(&[&[store(X, 1), Clwb(X), locked(Y, 1)]], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn two_clflushopts_are_not_in_order() {
    let program = [store(X, 1), store(Y, 1), Clwb(X), Clwb(Y)];
    litmus(&[&program], [X, Y])
        .at_the_end()
        .adr(ALL)
        .eadr_and_gpf(&[[1, 1]])
        .msync(ALL);
}

#[test]
fn a_clflushopt_comes_before_a_later_clflush_of_its_line_only() {
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
fn a_clflush_comes_before_every_later_write() {
    litmus(&[&[store(X, 1), Clflush(X), store(Y, 1)]], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn two_clflushes_are_in_order() {
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
