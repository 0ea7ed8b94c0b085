//! Where recoveries read: the stacks of their loads.

use std::time::Duration;

use brownout_recovery::{
    ByteRanges, Expectation, RecoveryLoad, RecoveryRunner, RecoveryTask, Sandbox, Verdict,
};
use brownout_trace::replay::Content;

use super::*;

/// Reads the file in the way that its second argument says.
const LOADER: &str = r#"
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile uint64_t sink;
static void inner(volatile uint64_t *word) { sink = *word; }
static void outer(volatile uint64_t *word) { inner(word); sink++; }
int main(int argc, char **argv) {
    char buffer[64];
    int fd = open(argv[1], O_RDWR);
    volatile uint64_t *words = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!strcmp(argv[2], "calls")) { outer(words + 2); inner(words + 1); outer(words + 2); words[4] = 1; inner(words + 4); }
    if (!strcmp(argv[2], "add")) __asm__ volatile("lock; addq $1, %0" : "+m"(words[3]));
    if (!strcmp(argv[2], "read")) return pread(fd, buffer, 16, 8) != 16;
    if (!strcmp(argv[2], "hang")) { inner(words + 5); for (;;) sink++; }
    return 0;
}
"#;

/// The loads of a recovery: offset, length and how many frames of the program led there.
fn loads(how: &str, limit: Duration) -> (Verdict, Vec<(u64, u64, usize)>) {
    let fixture = Fixture::set_up();
    let program = fixture.compile("loader", LOADER);
    let recovery = fixture.recovery(&format!("{} {{pm}} {how}", program.display()));
    let sandbox = Sandbox::start(&sandbox_server(), &recovery, &fixture.files()).unwrap();
    let mut runner = RecoveryRunner::new(sandbox, recovery, Expectation::default());
    let mut content = Content::default();
    content.resize(8192);
    let task = RecoveryTask {
        environment: Vec::new(),
        operations: 0..=0,
        time_limit: limit,
    };
    let mut wanted = ByteRanges::exact();
    wanted.insert(0..64);
    let image = [Some(content), None];
    let (attempt, loads) = runner.observe_loads(&image, &task, &[wanted]).unwrap();
    let depth = |load: &RecoveryLoad| {
        let frames = load.stack.iter();
        let in_program = frames.filter(|frame| frame.module.as_deref() == Some(&program));
        in_program.count()
    };
    let found = loads
        .iter()
        .map(|load| (load.read.offset, load.read.len, depth(load)));
    (attempt.verdict, found.collect())
}

#[test]
fn first_loads_have_the_calls_that_led_to_them() {
    let (verdict, found) = loads("calls", Duration::from_secs(60));
    assert_eq!(verdict, Verdict::Passed);
    // What it reads again, or has written itself, is not read for the first time. `_start` is a frame, too.
    assert_eq!(found, [(16, 8, 4), (8, 8, 3)]);
}

#[test]
fn an_instruction_that_reads_and_stores_has_a_stack() {
    let (_, found) = loads("add", Duration::from_secs(60));
    assert_eq!(found, [(24, 8, 2)]);
}

#[test]
fn a_read_by_a_system_call_has_no_stack() {
    let (_, found) = loads("read", Duration::from_secs(60));
    assert_eq!(found, [(8, 16, 0)]);
}

#[test]
fn the_loads_of_a_recovery_that_does_not_end_are_known() {
    let (verdict, found) = loads("hang", Duration::from_millis(250));
    assert_eq!(verdict, Verdict::Hung);
    assert_eq!(found, [(40, 8, 3)]);
}
