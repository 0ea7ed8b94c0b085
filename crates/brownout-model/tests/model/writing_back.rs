//! `msync` and `fsync` write back pages, and a disk writes whole sectors.

use crate::litmus::litmus;
use crate::program::Op::{Clwb, Fence, Read, Store, Sync};
use crate::program::{NEAR_X, X, Y, Z, store};

const ALL: &[[u8; 2]] = &[[0, 0], [0, 1], [1, 0], [1, 1]];
const IN_ORDER: &[[u8; 2]] = &[[0, 0], [1, 0], [1, 1]];

#[test]
fn writing_back_guarantees_the_page_under_every_profile() {
    litmus(&[&[store(X, 1), Sync(X), store(Y, 1)]], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(IN_ORDER);
    // X and NEAR_X are in one page.
    litmus(&[&[store(X, 1), Sync(NEAR_X), store(Y, 1)]], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(IN_ORDER);
}

#[test]
fn writing_back_another_page_guarantees_nothing() {
    litmus(&[&[store(X, 1), Sync(Z), store(Y, 1)]], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn flushes_and_fences_do_not_reach_the_disk() {
    litmus(&[&[store(X, 1), Clwb(X), Fence]], [X])
        .at_the_end()
        .adr(&[[1]])
        .eadr_and_gpf(&[[1]])
        .msync(&[[0], [1]]);
}

#[test]
fn a_sector_is_written_as_a_whole() {
    // Two lines of one sector persist in the order of their stores.
    litmus(&[&[store(X, 1), store(NEAR_X, 1)]], [X, NEAR_X])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(IN_ORDER);
    // The disk does not tear a store that crosses a line boundary but no sector boundary.
    let (end, next) = (NEAR_X - 1, NEAR_X);
    litmus(&[&[Store(end, vec![1, 1])]], [end, next])
        .adr(ALL)
        .eadr_and_gpf(&[[0, 0], [1, 1]])
        .msync(&[[0, 0], [1, 1]]);
    litmus(&[&[Store(511, vec![1, 1])]], [511, 512])
        .adr(ALL)
        .eadr_and_gpf(&[[0, 0], [1, 1]])
        .msync(ALL);
}

#[test]
fn writing_back_covers_the_stores_of_other_threads() {
    let writer = [store(X, 1)];
    let other = [Read(X, 1), Sync(X), store(Y, 1)];
    litmus(&[&writer, &other], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(IN_ORDER);
}
