//! The examples of Cho, Lee, Raad and Kang, "Revamping Hardware Persistency Models" (PLDI'21), with the exact sets of
//! states that the authors' model checker lists for them (its documentation, `NVM States`). The
//! originals are for Armv8, with `DC CVAP` and `DSB` instead of `clwb` and a fence. Tests note where x86 differs.

use crate::litmus::litmus;
use crate::program::Op::{Clflush, Clwb, Fence, Read};
use crate::program::{X, Y, Z, locked, store};

const W: u64 = 12288;

const ALL: &[[u8; 2]] = &[[0, 0], [0, 1], [42, 0], [42, 1]];
const IN_ORDER: &[[u8; 2]] = &[[0, 0], [42, 0], [42, 1]];

/// All states of four locations except those for which `without` returns `true`.
fn all_of_four(without: impl Fn([u8; 4]) -> bool) -> Vec<[u8; 4]> {
    let states = (0..16_u8).map(|bits| [bits & 1, bits >> 1 & 1, bits >> 2 & 1, bits >> 3]);
    states.filter(|state| !without(*state)).collect()
}

#[test]
fn commit_weak() {
    litmus(&[&[store(X, 42), store(Y, 1)]], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn commit_weak_opt() {
    litmus(&[&[store(X, 42), Clwb(X), store(Y, 1)]], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn commit1() {
    litmus(&[&[store(X, 42), Clwb(X), Fence, store(Y, 1)]], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
    litmus(&[&[store(X, 42), Clflush(X), store(Y, 1)]], [X, Y]).adr(IN_ORDER);
}

#[test]
fn commit2() {
    let reader = [Read(X, 42), Clwb(X), Fence, store(Y, 1)];
    litmus(&[&[store(X, 42)], &reader], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn commit2_opt() {
    let reader = [Read(X, 42), Clwb(X), store(Y, 1)];
    litmus(&[&[store(X, 42)], &reader], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn commit_opt() {
    let writer = [store(X, 42), store(Y, 7)];
    let reader = [Read(Y, 7), Clwb(X), Clwb(Y), Fence, store(Z, 1)];
    let published = [[0, 0, 0], [42, 0, 0], [0, 7, 0], [42, 7, 0], [42, 7, 1]];
    litmus(&[&writer, &reader], [X, Y, Z])
        .adr(&published)
        .eadr_and_gpf(&[[0, 0, 0], [42, 0, 0], [42, 7, 0], [42, 7, 1]]);
}

#[test]
fn fob() {
    let writer = [store(X, 1), store(Y, 1)];
    let reader = [Read(Y, 1), Clwb(X), Fence, store(Z, 1)];
    let published = [
        [0, 0, 0],
        [1, 0, 0],
        [0, 1, 0],
        [1, 1, 0],
        [1, 0, 1],
        [1, 1, 1],
    ];
    litmus(&[&writer, &reader], [X, Y, Z])
        .adr(&published)
        .eadr_and_gpf(&[[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]);
}

#[test]
fn flush_mca() {
    let lost = |[x, y, z, w]: [u8; 4]| z == 1 && w == 1 && x == 0 && y == 0;
    let one = [store(X, 1), Fence, Clwb(Y), Fence, store(Z, 1)];
    let other = [store(Y, 1), Fence, Clwb(X), Fence, store(W, 1)];
    litmus(&[&one, &other], [X, Y, Z, W])
        .adr(&all_of_four(lost))
        .msync(&all_of_four(|_| false));
    // Without the first fences, each write-back may precede the other thread's store.
    let one = [store(X, 1), Clwb(Y), Fence, store(Z, 1)];
    let other = [store(Y, 1), Clwb(X), Fence, store(W, 1)];
    litmus(&[&one, &other], [X, Y, Z, W]).adr(&all_of_four(|_| false));
    // A clflush is not reordered with stores.
    let one = [store(X, 1), Clflush(Y), store(Z, 1)];
    let other = [store(Y, 1), Clflush(X), store(W, 1)];
    litmus(&[&one, &other], [X, Y, Z, W]).adr(&all_of_four(lost));
}

#[test]
fn atomic_persists() {
    // The next owner of the lock depends on the stores of the previous owner. The value 2 means a released lock.
    let first = [
        locked(W, 1),
        store(X, 1),
        store(Y, 1),
        Clwb(X),
        Fence,
        Clwb(Y),
        Fence,
        store(W, 2),
    ];
    let next = [
        Read(W, 2),
        locked(W, 1),
        Read(X, 1),
        store(Z, 1),
        Clwb(Z),
        Fence,
        store(W, 2),
    ];
    let published = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1]];
    litmus(&[&first, &next], [X, Y, Z])
        .adr(&published)
        .eadr_and_gpf(&[[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]);
}
