//! Initialisation removal: HawkSet §3.1.3.

use brownout_libraries::AllocatedSize;
use brownout_names::FunctionPattern;
use brownout_race::CustomAllocator;

use crate::target_run::*;

fn threads() -> TargetRun {
    let mut run = TargetRun::new();
    run.removes_initialisation = true;
    run.create([T2, T3]);
    run
}

#[test]
fn what_is_durable_before_another_thread_accesses_it_is_initialisation() {
    let mut run = threads();
    run.thread(T2).at(1).store(X).persist(X);
    run.thread(T3).at(2).load(X);
    assert!(run.races().is_empty());
    let mut run = threads();
    run.removes_initialisation = false;
    run.thread(T2).at(1).store(X).persist(X);
    run.thread(T3).at(2).load(X);
    assert_eq!(run.races(), ["1-2"]);
}

#[test]
fn what_is_not_durable_when_another_thread_accesses_it_is_a_race() {
    let mut run = threads();
    run.thread(T2).at(1).store(X);
    run.thread(T3).at(2).load(X);
    run.thread(T2).persist(X);
    assert_eq!(run.races(), ["1-2 observed"]);
}

#[test]
fn stores_to_memory_that_several_threads_use_are_no_initialisation() {
    let mut run = threads();
    run.thread(T3).at(2).load(X);
    run.thread(T2).at(1).store(X).persist(X);
    assert_eq!(run.races(), ["1-2"]);
}

/// `T2` allocates 64 bytes at an address by a function that returns it.
fn allocate(run: &mut TargetRun, addr: u64) {
    run.thread(T2).begin("memkind_malloc", &[7, 64]);
    run.end("memkind_malloc", addr);
}

#[test]
fn memory_that_is_allocated_again_is_private_again() {
    let reuse = |run: &mut TargetRun| {
        run.thread(T2).at(1).store(Z).persist(Z);
        run.thread(T3).at(2).load(Z);
    };
    let mut run = threads();
    reuse(&mut run);
    reuse(&mut run);
    assert_eq!(run.races(), ["1-2"]);
    let mut run = threads();
    for _ in 0..2 {
        allocate(&mut run, Z);
        reuse(&mut run);
    }
    assert!(run.races().is_empty());
}

#[test]
fn memory_that_a_function_of_the_user_allocates_is_private_again() {
    for size in [AllocatedSize::Argument(1), AllocatedSize::Bytes(64)] {
        let mut run = threads();
        run.allocators.push(CustomAllocator {
            function: FunctionPattern::new("slab_alloc"),
            size,
        });
        for _ in 0..2 {
            run.thread(T2).begin("slab_alloc", &[7, 64]);
            run.end("slab_alloc", Z).at(1).store(Z).persist(Z);
            run.thread(T3).at(2).load(Z);
        }
        assert!(run.races().is_empty(), "{size:?}");
    }
}

#[test]
fn what_was_read_before_its_memory_was_allocated_again_was_a_race() {
    let mut run = threads();
    allocate(&mut run, Z);
    run.at(1).store(Z);
    run.thread(T3).at(2).load(Z);
    allocate(&mut run, Z);
    run.at(3).store(Z).persist(Z);
    assert_eq!(run.races(), ["1-2 observed"]);
}

#[test]
fn what_an_allocation_stores_belongs_to_the_new_object() {
    let mut run = threads();
    run.thread(T2).at(1).store(Z).persist(Z);
    run.thread(T3).at(2).load(Z);
    run.thread(T2).begin("memkind_malloc", &[7, 64]);
    run.at(3).store(Z).end("memkind_malloc", Z).persist(Z);
    assert!(run.races().is_empty());
}

#[test]
fn locks_are_gone_when_their_memory_is_allocated_again() {
    let mut run = threads();
    for thread in [T2, T3] {
        run.thread(thread).acquire(Z, 8, false).at(8).load(X);
        run.release(Z, Release::ByStore).at(9).store(Z);
    }
    allocate(&mut run, Z);
    run.at(1).store(Z);
    run.thread(T3).at(2).load(Z);
    assert_eq!(run.races(), ["1-2 never observed"]);
}

#[test]
fn an_object_is_public_once_a_pointer_to_it_is_visible() {
    for pointer in [Z, Z - POOL] {
        let mut run = threads();
        run.thread(T3).at(9).load(X);
        allocate(&mut run, Z);
        run.at(1).store(Z).persist(Z);
        run.at(2).store_value(X, pointer).persist(X);
        run.at(3).store(Z + 8).persist(Z);
        run.thread(T3).at(4).load(Z).at(5).load(Z + 8);
        assert_eq!(run.races(), ["2-9", "3-5"]);
    }
}

#[test]
fn a_pointer_in_a_private_object_publishes_nothing_until_that_is_public() {
    let mut run = threads();
    run.thread(T3).at(9).load(X);
    allocate(&mut run, Y);
    allocate(&mut run, Z);
    run.at(1).store_value(Y, Z).persist(Y);
    run.at(2).store(Z).persist(Z);
    run.at(3).store_value(X, Y).persist(X);
    run.at(4).store(Z + 8).persist(Z);
    run.thread(T3).at(5).load(Y).at(6).load(Z).at(7).load(Z + 8);
    assert_eq!(run.races(), ["3-9", "4-7"]);
}

#[test]
fn objects_of_libpmemobj_are_known() {
    // An identifier in the pool, by which the library returns the object.
    let mut run = threads();
    run.thread(T3).at(9).load(Z).thread(T2).at(8).load(Z);
    run.begin("pmemobj_alloc", &[POOL, X, 64]).at(LIBRARY);
    run.store_value(X + 8, Z - POOL).end("pmemobj_alloc", 0);
    run.at(1).store(Z).persist(Z);
    run.thread(T3).at(2).load(Z);
    assert!(run.races().is_empty());
    // In a transaction the identifier is the result.
    let mut run = threads();
    run.thread(T3).at(9).load(Z).thread(T2).at(8).load(Z);
    run.call("pmemobj_tx_begin", &[POOL]);
    run.begin("pmemobj_tx_alloc", &[64, 1]);
    run.end_pair("pmemobj_tx_alloc", [7, Z - POOL]);
    run.at(1).store(Z).persist(Z);
    run.thread(T3).at(2).load(Z);
    assert!(run.races().is_empty());
}
