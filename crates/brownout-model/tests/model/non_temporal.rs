//! Non-temporal stores, as in "Extending Intel-x86 Consistency and Persistency" (Raad et al., POPL'22) for
//! write-back memory: they bypass the cache, are weakly ordered, and only a fence of their thread guarantees them.

use crate::litmus::litmus;
use crate::program::Op::{Clflush, Clwb, Fence, Read, Sync};
use crate::program::{X, X2, Y, Z, locked, nt_store, store};

const ALL: &[[u8; 2]] = &[[0, 0], [0, 1], [1, 0], [1, 1]];
const IN_ORDER: &[[u8; 2]] = &[[0, 0], [1, 0], [1, 1]];

#[test]
fn a_non_temporal_store_is_not_ordered_with_later_stores() {
    litmus(&[&[nt_store(X, 1), store(Y, 1)]], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(ALL)
        .msync(ALL);
    litmus(&[&[nt_store(X, 1), nt_store(Y, 1)]], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(ALL)
        .msync(ALL);
}

#[test]
fn nor_with_later_stores_to_its_line() {
    litmus(&[&[nt_store(X, 1), store(X2, 1)]], [X, X2])
        .adr(ALL)
        .eadr_and_gpf(ALL)
        .msync(IN_ORDER);
    litmus(&[&[store(X, 1), nt_store(X2, 1)]], [X, X2])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(IN_ORDER);
}

#[test]
fn a_fence_or_locked_instruction_of_its_thread_guarantees_it() {
    for fence in [Fence, locked(Z, 1)] {
        litmus(&[&[nt_store(X, 1), fence, store(Y, 1)]], [X, Y])
            .adr(IN_ORDER)
            .eadr_and_gpf(IN_ORDER)
            .msync(ALL);
    }
}

#[test]
fn a_fence_of_another_thread_does_not_guarantee_it() {
    let writer = [nt_store(X, 1), store(Z, 1)];
    let other = [Read(Z, 1), Fence, store(Y, 1)];
    litmus(&[&writer, &other], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(ALL)
        .msync(ALL);
}

#[test]
fn a_flush_does_not_guarantee_it() {
    litmus(&[&[nt_store(X, 1), Clflush(X), store(Y, 1)]], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(ALL)
        .msync(ALL);
    let writer = [nt_store(X, 1), store(Z, 1)];
    let other = [Read(Z, 1), Clwb(X), Fence, store(Y, 1)];
    litmus(&[&writer, &other], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(ALL);
}

#[test]
fn it_does_not_persist_the_rest_of_its_line() {
    litmus(&[&[store(X, 1), nt_store(X2, 1), Fence]], [X, X2])
        .at_the_end()
        .adr(&[[0, 1], [1, 1]])
        .eadr_and_gpf(&[[1, 1]])
        .msync(IN_ORDER);
}

#[test]
fn no_byte_returns_to_an_older_store() {
    // The older store, fenced or evicted late, does not overwrite the newer one.
    litmus(&[&[nt_store(X, 1), store(X, 2), Clflush(X), Fence]], [X])
        .at_the_end()
        .adr(&[[2]])
        .eadr_and_gpf(&[[2]])
        .msync(&[[0], [1], [2]]);
    litmus(&[&[nt_store(X, 1), store(X, 2), Clflush(X)]], [X])
        .at_the_end()
        .adr(&[[2]])
        .eadr_and_gpf(&[[2]]);
    litmus(&[&[store(X, 1), nt_store(X, 2), Fence]], [X])
        .at_the_end()
        .adr(&[[2]])
        .eadr_and_gpf(&[[2]]);
    litmus(&[&[nt_store(X, 1), store(X, 2)]], [X])
        .at_the_end()
        .adr(&[[0], [1], [2]])
        .eadr_and_gpf(&[[2]]);
}

#[test]
fn writing_back_its_page_guarantees_it() {
    litmus(&[&[nt_store(X, 1), Sync(X), store(Y, 1)]], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(IN_ORDER);
}
