//! Targets that are executed again and again, inside the sandbox.

use std::path::Path;
use std::time::Duration;

use brownout_engine::fuzz::{CopyEnd, FuzzTarget, InputChannel};
use brownout_engine::{Repetition, ThreadSchedule};
use brownout_recovery::{FuzzSandbox, FuzzSandboxError};
use brownout_trace::replay::Content;

use super::*;

/// Adds to a counter in the pool as often as there are lines, writes a log if a line is `log`, and returns how often it has been started,
/// as far as the log shows.
const TARGET: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int fd = open(argv[1], O_RDWR | O_CREAT, 0666);
    ftruncate(fd, 8192);
    volatile unsigned long *pool = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pool == MAP_FAILED) return 99;
    char line[64]; struct stat log;
    int logged = stat(argv[2], &log) == 0;
    while (fgets(line, sizeof line, stdin)) {
        pool[600]++;
        if (!strcmp(line, "log\n")) fclose(fopen(argv[2], "w"));
        if (!strcmp(line, "crash\n")) *(volatile int *)8 = 0;
        if (!strcmp(line, "bystander\n")) { int other = open(argv[3], O_WRONLY | O_TRUNC); write(other, "x", 1); }
    }
    return pool[600] + 100 * logged;
}
"#;

fn image(value: u64) -> Content {
    let mut content = Content::default();
    content.resize(8192);
    content.write(4800, &value.to_le_bytes());
    content
}

fn counter(content: Option<&Content>) -> u64 {
    let mut bytes = [0; 8];
    content.unwrap().read(4800, &mut bytes);
    u64::from_le_bytes(bytes)
}

fn target(fixture: &Fixture, program: &Path) -> FuzzTarget {
    let pool = std::fs::canonicalize(fixture.path()).unwrap().join("pool");
    FuzzTarget {
        command: vec![
            program.into(),
            pool.clone().into(),
            fixture.path().join("log").into(),
            fixture.path().join("bystander").into(),
        ],
        environment: Vec::new(),
        directory: None,
        input: InputChannel::Stdin,
        files: vec![pool],
        fork_at: None,
        timeout: Duration::from_secs(20),
        schedule: ThreadSchedule::of_seed(1),
        repetition: Repetition::default(),
        comparisons: false,
    }
}

fn start(fixture: &Fixture, first: Option<Content>) -> FuzzSandbox {
    let program = fixture.compile("target", TARGET);
    let target = target(fixture, &program);
    let recovery = fixture.recovery("true {pm}");
    FuzzSandbox::start(&sandbox_server(), &recovery, &target, &[first]).unwrap()
}

#[test]
fn executions_leave_the_files_of_the_user_and_each_other_alone() {
    if !layers_are_possible() {
        return;
    }
    let fixture = Fixture::set_up();
    let mut target = start(&fixture, Some(image(5)));
    assert!(target.is_copied_at_input(), "{}", target.fork_point());
    let first = target.execute(b"a\nb\n").unwrap();
    assert_eq!(first.end, CopyEnd::Exited(7));
    assert_eq!(counter(target.files().unwrap()[0].as_ref()), 7);
    assert!(!first.transitions.is_empty() && !first.edges.is_empty());
    let operation = target.operation(first.transitions[0].0.to).unwrap();
    assert!(operation.is_some());
    assert_eq!(target.execute(b"crash\n").unwrap().end, CopyEnd::Killed(11));
    let again = target.execute(b"a\nb\n").unwrap();
    assert_eq!(
        (again.end, again.transitions),
        (first.end, first.transitions)
    );
    for value in [20, 0] {
        let opened = target.set_image(&[Some(image(value))]).unwrap().unwrap();
        assert_eq!(opened.end, CopyEnd::AtInput);
        let end = target.execute(b"a\n").unwrap().end;
        assert_eq!(end, CopyEnd::Exited(value as i32 + 1));
    }
    target.set_image(&[None]).unwrap();
    assert_eq!(target.execute(b"a\n").unwrap().end, CopyEnd::Exited(1));
    let wrong = target.set_image(&[]).unwrap_err();
    assert!(matches!(wrong, FuzzSandboxError::Image { .. }));
    drop(target);
    fixture.assert_untouched();
}

#[test]
fn other_files_that_an_execution_writes_are_discarded() {
    if !layers_are_possible() {
        return;
    }
    let fixture = Fixture::set_up();
    let mut target = start(&fixture, Some(image(0)));
    for _ in 0..2 {
        let logs = target.execute(b"log\nbystander\n").unwrap();
        assert_eq!((logs.end, logs.wrote_files), (CopyEnd::Exited(2), true));
    }
    assert_eq!(target.renewals(), 1);
    let plain = target.execute(b"a\n").unwrap();
    assert_eq!((plain.end, plain.wrote_files), (CopyEnd::Exited(1), false));
    drop(target);
    assert!(!fixture.path().join("log").exists());
    fixture.assert_untouched();
}

#[test]
fn a_target_that_cannot_be_run_is_reported_with_its_reason() {
    let fixture = Fixture::set_up();
    let program = fixture.path().join("bystander");
    let target = target(&fixture, &program);
    let recovery = fixture.recovery("true {pm}");
    let started = FuzzSandbox::start(&sandbox_server(), &recovery, &target, &[None]);
    let Err(FuzzSandboxError::Target(reason)) = started else {
        panic!("it was started");
    };
    assert!(reason.contains("bystander"), "{reason}");
}
