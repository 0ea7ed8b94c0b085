//! Published examples with one or two threads: the running example of Jaaru (ASPLOS'21, Fig. 2), and the examples of
//! Px86 in its §2 ("Persistency Semantics of the Intel-x86 Architecture", Raad et al., POPL'20). A `clflush` is
//! ordered with all stores, `clflushopt` and `clwb` need a fence or a locked instruction of their thread, and being
//! read by another thread does not make a store persistent. The tests are named after what they show, not after the
//! figures. Table 1 is tested in `ordering_table`.

use crate::litmus::litmus;
use crate::program::Op::{Clflush, Clwb, Fence, Read};
use crate::program::{X, X2, Y, Z, locked, store};

const ALL: &[[u8; 2]] = &[[0, 0], [0, 1], [1, 0], [1, 1]];
const IN_ORDER: &[[u8; 2]] = &[[0, 0], [1, 0], [1, 1]];

#[test]
fn a_flush_persists_the_whole_line() {
    let program = [store(X, 1), store(X2, 1), Clflush(X), store(Y, 1)];
    litmus(&[&program], [X, X2, Y])
        .adr(&[[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]])
        .eadr_and_gpf(&[[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]])
        .msync(&[
            [0, 0, 0],
            [0, 0, 1],
            [1, 0, 0],
            [1, 0, 1],
            [1, 1, 0],
            [1, 1, 1],
        ]);
}

#[test]
fn one_fence_completes_many_flushes() {
    let program = [
        store(X, 1),
        store(Y, 1),
        Clwb(X),
        Clwb(Y),
        Fence,
        store(Z, 1),
    ];
    litmus(&[&program], [X, Y, Z])
        .adr(&[[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]])
        .eadr_and_gpf(&[[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]);
}

#[test]
fn a_location_written_twice_keeps_one_of_the_newest_values() {
    let program = [store(X, 1), Clflush(X), store(X, 2), store(Y, 1)];
    litmus(&[&program], [X, Y])
        .adr(&[[0, 0], [1, 0], [2, 0], [1, 1], [2, 1]])
        .eadr_and_gpf(&[[0, 0], [1, 0], [2, 0], [2, 1]])
        .msync(&[[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]]);
}

#[test]
fn the_running_example_of_jaaru() {
    // Fig. 2: x and y share a line; the lower bound of the interval is the clflush after the second store.
    let program = [
        store(X2, 1),
        store(X, 2),
        Clflush(X),
        store(X2, 3),
        store(X, 4),
        store(X2, 5),
        store(X, 6),
    ];
    let after = &[[2, 1], [2, 3], [4, 3], [4, 5], [6, 5]];
    litmus(&[&program], [X, X2])
        .at_the_end()
        .adr(after)
        .eadr_and_gpf(&[[6, 5]])
        .msync(&[[0, 0], [0, 1], [2, 1], [2, 3], [4, 3], [4, 5], [6, 5]]);
}

#[test]
fn being_read_by_another_thread_does_not_make_a_store_persistent() {
    let writer = [store(X, 1)];
    let reader = [Read(X, 1), store(Y, 1)];
    litmus(&[&writer, &reader], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn a_store_can_be_read_before_its_thread_flushes_it() {
    let writer = [store(X, 1), Clflush(X)];
    let reader = [Read(X, 1), store(Y, 1)];
    litmus(&[&writer, &reader], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER);
    // Not if the writer signals that it has flushed it.
    let writer = [store(X, 1), Clwb(X), Fence, store(Z, 1)];
    let reader = [Read(Z, 1), store(Y, 1)];
    litmus(&[&writer, &reader], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn a_flush_and_fence_guarantee_the_stores_of_other_threads() {
    let writer = [store(X, 1)];
    let helper = [Read(X, 1), Clwb(X), locked(Z, 1), store(Y, 1)];
    litmus(&[&writer, &helper], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
}

#[test]
fn a_fence_completes_only_the_flushes_of_its_thread() {
    let writer = [store(X, 1), Clwb(X), store(Z, 1)];
    let other = [Read(Z, 1), Fence, store(Y, 1)];
    litmus(&[&writer, &other], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
    // A clflush needs no fence.
    let writer = [store(X, 1), Clflush(X), store(Z, 1)];
    let other = [Read(Z, 1), store(Y, 1)];
    litmus(&[&writer, &other], [X, Y]).adr(IN_ORDER);
}

#[test]
fn a_flush_covers_the_stores_before_it_not_those_before_its_fence() {
    let flusher = [store(X, 1), Clwb(X), Read(X, 2), Fence, store(Y, 1)];
    let writer = [Read(X, 1), store(X, 2)];
    litmus(&[&flusher, &writer], [X, Y])
        .at_the_end()
        .adr(&[[1, 0], [1, 1], [2, 0], [2, 1]])
        .eadr_and_gpf(&[[2, 1]]);
}

#[test]
fn two_threads_persist_their_own_lines_in_any_order() {
    let one = [store(X, 1), Clwb(X), Fence];
    let other = [store(Y, 1), Clwb(Y), Fence];
    litmus(&[&one, &other], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(ALL)
        .msync(ALL);
    litmus(&[&one, &other], [X, Y])
        .at_the_end()
        .adr(&[[1, 1]])
        .eadr_and_gpf(&[[1, 1]])
        .msync(ALL);
}

#[test]
fn threads_that_share_a_line_share_its_sequence() {
    let one = [store(X, 1), store(Z, 1)];
    let other = [Read(Z, 1), store(X2, 1)];
    litmus(&[&one, &other], [X, X2])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(IN_ORDER);
}

#[test]
fn a_commit_marker_in_the_line_of_its_data_needs_no_flush_before_it() {
    let program = [store(X, 1), store(X2, 1), Clwb(X), Fence, store(Y, 1)];
    litmus(&[&program], [X, X2, Y])
        .adr(&[[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]])
        .eadr_and_gpf(&[[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]);
}

#[test]
fn a_locked_instruction_orders_like_a_fence() {
    let program = [store(X, 1), Clwb(X), locked(Z, 1), store(Y, 1)];
    litmus(&[&program], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER)
        .msync(ALL);
    // It covers only earlier flushes of its thread: these flushes are too late or from another thread.
    let late = [store(X, 1), locked(Z, 1), Clwb(X), store(Y, 1)];
    litmus(&[&late], [X, Y]).adr(ALL);
    let flusher = [store(X, 1), Clwb(X), store(Z, 1)];
    let other = [Read(Z, 1), locked(Z, 2), store(Y, 1)];
    litmus(&[&flusher, &other], [X, Y]).adr(ALL);
}

#[test]
fn a_flush_of_one_line_does_not_affect_another() {
    let program = [store(X, 1), store(Y, 1), Clflush(Y), store(Z, 1)];
    litmus(&[&program], [X, Y, Z]).adr(&[
        [0, 0, 0],
        [0, 1, 0],
        [0, 1, 1],
        [1, 0, 0],
        [1, 1, 0],
        [1, 1, 1],
    ]);
}

#[test]
fn message_passing_needs_the_flush_before_the_message() {
    // The reader acts on a message whose data is flushed only afterwards.
    let writer = [store(X, 1), store(Z, 1), Clwb(X), Fence];
    let reader = [Read(Z, 1), store(Y, 1), Clwb(Y), Fence];
    litmus(&[&writer, &reader], [X, Y])
        .adr(ALL)
        .eadr_and_gpf(IN_ORDER);
    // Alternatively, the reader persists the data it depends on.
    let writer = [store(X, 1), store(Z, 1)];
    let reader = [Read(Z, 1), Clwb(X), Fence, store(Y, 1)];
    litmus(&[&writer, &reader], [X, Y])
        .adr(IN_ORDER)
        .eadr_and_gpf(IN_ORDER);
}
