//! The patch instrument: flushes and fences in programs that do not have them.
//!
//! Each program is recorded twice: the first recording shows where it stores, the second one has the operations.

mod fixture;

use brownout_engine::{InstructionRole, PatchOperations};
use fixture::PatchedProgram;

const FLUSH: PatchOperations = PatchOperations {
    flush: true,
    fence: false,
    sync: false,
    is_loop: false,
};
const BOTH: PatchOperations = PatchOperations {
    fence: true,
    ..FLUSH
};

#[test]
fn a_store_is_flushed_behind_the_instruction() {
    let program = PatchedProgram::new("pool[0] = 1; pool[64] = 2;");
    assert_eq!(program.recorded(), "s0 s512");
    let plan = program.behind_stores(BOTH, |_, _| true);
    assert_eq!(program.patched(&plan), "s0 f0 | s512 f512 |");
}

#[test]
fn only_the_named_instruction_is_patched() {
    let program = PatchedProgram::new("pool[0] = 1; pool[64] = 2;");
    let plan = program.behind_stores(FLUSH, |_, offset| offset == 512);
    assert_eq!(program.patched(&plan), "s0 s512 f512");
}

#[test]
fn an_unaligned_store_is_flushed_in_both_lines() {
    let program = PatchedProgram::new("*(volatile uint64_t *)((char *)pool + 60) = 1;");
    let plan = program.behind_stores(FLUSH, |_, _| true);
    assert_eq!(program.patched(&plan), "s60 f0 f64");
}

#[test]
fn the_address_is_that_before_the_instruction() {
    // The registers of the address are changed by the instruction itself.
    let program = PatchedProgram::new(
        "volatile char *at = (char *)pool + 128; uint64_t value = 5;
         __asm__ volatile(\"lock xadd %1, (%0)\" : : \"r\"(at), \"r\"(value) : \"memory\");
         __asm__ volatile(\"stosq\" : \"+D\"(at) : \"a\"(value) : \"memory\");",
    );
    let plan = program.behind_stores(FLUSH, |_, _| true);
    assert_eq!(program.patched(&plan), "s128 f128 s128 f128");
}

#[test]
fn all_that_a_repeated_instruction_stores_is_flushed() {
    let program = PatchedProgram::new(
        "void *to = (char *)pool + 100; uint64_t count = 100;
         __asm__ volatile(\"rep stosb\" : \"+D\"(to), \"+c\"(count) : \"a\"(7) : \"memory\");",
    );
    let plan = program.behind_stores(FLUSH, |_, _| true);
    let shown = program.patched(&plan);
    assert!(shown.ends_with("f64 f128 f192"), "{shown}");
    let backwards = PatchedProgram::new(
        "void *to = (char *)pool + 199; uint64_t count = 100;
         __asm__ volatile(\"std; rep stosb; cld\" : \"+D\"(to), \"+c\"(count) : \"a\"(7) : \"memory\");",
    );
    let plan = backwards.behind_stores(FLUSH, |_, _| true);
    let shown = backwards.patched(&plan);
    assert!(shown.ends_with("f64 f128 f192"), "{shown}");
}

#[test]
fn vector_and_non_temporal_stores_are_flushed() {
    let program = PatchedProgram::new(
        "_mm_storeu_si128((__m128i *)((char *)pool + 56), _mm_set1_epi8(1));
         _mm_stream_si64((long long *)((char *)pool + 256), 3);",
    );
    let plan = program.behind_stores(FLUSH, |_, _| true);
    assert_eq!(program.patched(&plan), "s56 f0 f64 s256 f256");
}

#[test]
fn memory_that_is_not_persistent_is_flushed_too() {
    let program = PatchedProgram::with_functions(
        "__attribute__((noipa)) static void put(volatile uint64_t *to) { *to = 1; }",
        "put(aligned_alloc(64, 64)); put(pool);",
    );
    let plan = program.behind_stores(FLUSH, |_, _| true);
    assert_eq!(program.patched(&plan), "v s0 f0");
}

#[test]
fn what_a_library_stores_in_a_call_is_flushed_when_it_returns() {
    let source = "char text[200]; memset(text, 1, sizeof text);
        void *(*volatile copy)(void *, const void *, size_t) = memcpy;
        char other[200]; copy(other, text, 200);
        copy((void *)pool, text, 200);
        pool[64] = 1;";
    let program = PatchedProgram::new(source);
    let plan = program.in_calls(BOTH, |offset| offset < 200);
    let shown = program.patched(&plan);
    // The copy to other memory is made by another call.
    assert!(!shown.contains('v'), "{shown}");
    assert!(shown.ends_with("f0 f64 f128 f192 | s512"), "{shown}");
}

#[test]
fn a_recursive_statement_ends_once_for_each_call() {
    let source = "touch(3);";
    let program = PatchedProgram::with_functions(
        "__attribute__((noinline)) static void set(int at) { pool[at * 8] = at; }
         __attribute__((noinline)) static void touch(int depth) {
           if (depth == 0) return;
           touch(depth - 1);
           set(depth);
         }",
        source,
    );
    let plan = program.in_calls(BOTH, |_| true);
    assert_eq!(program.patched(&plan), "s64 f64 | s128 f128 | s192 f192 |");
}

#[test]
fn a_loop_is_flushed_after_its_last_iteration() {
    let source = "for (int i = 0; i < 3; i++) pool[i * 8] = 1; pool[80] = 2;";
    let program = PatchedProgram::new(source);
    let is_loop = PatchOperations {
        is_loop: true,
        ..BOTH
    };
    let mut plan = program.behind_stores(is_loop, |_, offset| offset < 640);
    let mut end = program.behind_stores(is_loop, |_, offset| offset == 640);
    end.sites.retain(|site| site.role == InstructionRole::Store);
    for site in &mut end.sites {
        site.role = InstructionRole::BeforeIt;
    }
    plan.sites.extend(end.sites);
    assert_eq!(program.patched(&plan), "s0 s64 s128 f0 f64 f128 | s640");
}

#[test]
fn pages_are_synced_in_place_of_flushes() {
    let program = PatchedProgram::new("pool[0] = 1;");
    let sync = PatchOperations {
        sync: true,
        ..PatchOperations::default()
    };
    let plan = program.behind_stores(sync, |_, _| true);
    assert_eq!(program.patched(&plan), "s0 y0+64");
}

#[test]
fn each_thread_and_child_has_operations_of_its_own() {
    let program = PatchedProgram::new("for (int i = 0; i < 2; i++) in_thread_and_child(i);");
    let plan = program.behind_stores(BOTH, |_, _| true);
    let counts = program.counts(&plan);
    assert_eq!(counts.performed, [4]);
    assert_eq!(counts.unknown, 0);
}
