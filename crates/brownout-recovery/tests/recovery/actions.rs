//! What recoveries do to the persistent files, as a run under the engine shows it.

use std::time::Duration;

use brownout_recovery::{
    ByteRanges, Expectation, Observation, RecoveryRunner, RecoveryTask, Sandbox, Verdict,
};
use brownout_trace::EventKind;
use brownout_trace::replay::Content;

use super::*;

const REPAIR: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void *store_id(void *at) {
    *(volatile uint64_t *)at = gettid();
    return 0;
}
int main(int argc, char **argv) {
    const char *how = argv[2];
    int fd = open(argv[1], O_RDWR);
    if (!strcmp(how, "unmapped")) pwrite(fd, "x", 1, 100);
    volatile uint64_t *pool = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int other = open("scratch", O_RDWR | O_CREAT, 0600);
    ftruncate(other, 4096);
    volatile uint64_t *scratch = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
    _mm_sfence(); /* orders nothing */
    uint64_t first = pool[0];
    pool[8] = first + 7;
    scratch[0] = 1;
    _mm_clflush((void *)&pool[8]);
    _mm_sfence();
    pool[16] = pool[1] + pool[32];
    if (!strcmp(how, "ids")) {
        pthread_t thread;
        pool[24] = getpid();
        pthread_create(&thread, 0, store_id, (void *)&pool[25]);
        pthread_join(thread, 0);
    }
    if (!strcmp(how, "pwrite")) pwrite(fd, "abcd", 4, 4096);
    if (!strcmp(how, "truncate")) ftruncate(fd, 4096);
    if (!strcmp(how, "removed")) unlink(argv[1]);
    return 0;
}
"#;

/// What a repair of a pool shows of which some bytes are wanted.
fn observed(fixture: &Fixture, how: &str) -> Observation {
    observe(&mut repair(fixture, how))
}

fn repair(fixture: &Fixture, how: &str) -> RecoveryRunner {
    let program = fixture.compile("repair", REPAIR);
    let command = format!("{} {{pm}} {how}", program.display());
    let recovery = fixture.recovery(&command);
    let sandbox = Sandbox::start(&sandbox_server(), &recovery, &fixture.files()).unwrap();
    RecoveryRunner::new(sandbox, recovery, Expectation::default())
}

fn observe(runner: &mut RecoveryRunner) -> Observation {
    let mut content = Content::default();
    content.resize(8192);
    content.write(0, &[5]);
    let task = RecoveryTask {
        environment: Vec::new(),
        operations: 0..=0,
        time_limit: Duration::from_secs(60),
    };
    let mut wanted = ByteRanges::exact();
    wanted.insert(0..16);
    let image = [Some(content), None];
    let attempt = runner.attempt_with_actions(&image, &task, &[wanted]);
    let attempt = attempt.unwrap();
    assert_eq!(attempt.verdict, Verdict::Passed, "{attempt:?}");
    attempt.observation.unwrap()
}

#[test]
fn what_a_recovery_does_is_known_in_order() {
    let fixture = Fixture::set_up();
    let observation = observed(&fixture, "plainly");
    assert_eq!(observation.gaps, [""; 0]);
    let actions = observation.actions.unwrap();
    assert_eq!(actions.sizes, [Some(8192), None]);
    let mut events = actions.events().unwrap();
    let mut done = Vec::new();
    while let Some(event) = events.next().unwrap() {
        let what = match event.kind {
            EventKind::Store { bytes, .. } => format!("store {}", bytes[0]),
            EventKind::Flush { .. } => "flush".to_owned(),
            EventKind::Fence { kind } => kind.name().to_owned(),
            _ => continue,
        };
        done.push((event.index.0, what));
    }
    let names: Vec<&str> = done.iter().map(|(_, what)| what.as_str()).collect();
    // The C library uses locks when it exits.
    assert_eq!(names, ["store 12", "flush", "sfence", "store 0", "locked"]);
    // The first word is read before the first store, the second one after the fence.
    let [first, second] = actions.events_before_reads[..] else {
        panic!("{:?}", actions.events_before_reads);
    };
    assert!(first <= done[0].0 && done[2].0 < second && second <= done[3].0);
    let others = &actions.other_reads[0];
    assert!(
        others.overlaps(256..264) && others.bytes() == 8,
        "{others:?}"
    );
    fixture.assert_untouched();
}

#[test]
fn processes_and_threads_have_the_same_ids_in_each_run() {
    let fixture = Fixture::set_up();
    let stored = |runner: &mut RecoveryRunner| {
        let observation = observe(runner);
        assert_eq!(observation.other_inputs, [""; 0]);
        let actions = observation.actions.unwrap();
        let mut events = actions.events().unwrap();
        let mut ids: Vec<u64> = Vec::new();
        while let Some(event) = events.next().unwrap() {
            if let EventKind::Store { bytes, .. } = event.kind {
                ids.extend(bytes.try_into().map(u64::from_le_bytes));
            }
        }
        ids.split_off(2)
    };
    let mut runner = repair(&fixture, "ids");
    let first = stored(&mut runner);
    assert_eq!(first.len(), 2);
    assert_ne!(first[0], first[1]);
    assert_eq!(stored(&mut runner), first, "in the same sandbox");
    let mut other = repair(&fixture, "ids");
    assert_eq!(stored(&mut other), first, "in another sandbox");
}

#[test]
fn writes_to_a_mapped_file_are_actions() {
    let fixture = Fixture::set_up();
    for how in ["pwrite", "truncate"] {
        let observation = observed(&fixture, how);
        assert_eq!(observation.gaps, [""; 0], "{how}");
    }
}

#[test]
fn changes_that_are_not_recorded_are_a_gap() {
    let fixture = Fixture::set_up();
    let ways = [
        (
            "unmapped",
            "writes to persistent files that it has not mapped",
        ),
        ("removed", "creates, removes, renames or replaces"),
    ];
    for (how, expected) in ways {
        let observation = observed(&fixture, how);
        let gaps = observation.gaps.join("\n");
        assert!(gaps.contains(expected), "{how}: {gaps}");
    }
}
