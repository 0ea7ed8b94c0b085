//! Limits on memory, file sizes and time.

use std::time::Duration;

use brownout_recovery::{End, RunRequest, Sandbox};

use crate::*;

#[test]
fn a_run_that_exceeds_its_memory_limit_is_killed() {
    let fixture = Fixture::set_up();
    let program = fixture.compile(
        "fill",
        "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
         int main(void) { for (;;) { memset(malloc(1 << 20), 1, 1 << 20); usleep(500); } }",
    );
    let mut recovery = fixture.recovery(&format!("{} {{pm}}", program.display()));
    recovery.memory_limit = Some(100 << 20);
    let mut sandbox = Sandbox::start(&sandbox_server(), &recovery, &fixture.files()).unwrap();
    for _ in 0..2 {
        assert_eq!(run(&mut sandbox).end, End::OutOfMemory);
    }
}

#[test]
fn a_file_cannot_grow_beyond_its_limit() {
    let fixture = Fixture::set_up();
    let mut recovery = fixture.recovery("head -c 3000000 /dev/zero > $TMPDIR/x; echo {pm}");
    recovery.file_size_limit = Some(1 << 20);
    let mut sandbox = Sandbox::start(&sandbox_server(), &recovery, &fixture.files()).unwrap();
    let outcome = run(&mut sandbox);
    assert!(!text(&outcome.stderr).is_empty(), "{outcome:?}");
    recovery.file_size_limit = Some(4 << 20);
    let mut sandbox = Sandbox::start(&sandbox_server(), &recovery, &fixture.files()).unwrap();
    assert_eq!(text(&run(&mut sandbox).stderr), "");
}

#[test]
fn a_run_that_fills_the_disk_fills_only_its_own() {
    if !layers_are_possible() {
        return;
    }
    let fixture = Fixture::set_up();
    let mut recovery = fixture.recovery("cat pool; head -c 100000000 /dev/zero > big");
    recovery.disk_limit = Some(16 << 20);
    let mut sandbox = Sandbox::start(&sandbox_server(), &recovery, &fixture.files()).unwrap();
    for _ in 0..3 {
        let outcome = run(&mut sandbox);
        assert_eq!(text(&outcome.stdout), IMAGE);
        assert!(
            matches!(outcome.end, End::Exited(status) if status != 0),
            "{outcome:?}"
        );
    }
    assert!(!fixture.path().join("big").exists());
}

#[test]
fn a_run_that_starts_processes_endlessly_is_killed() {
    let fixture = Fixture::set_up();
    let program = fixture.compile(
        "breed",
        "#include <sys/wait.h>\n#include <unistd.h>\n\
         int main(void) { for (;;) if (fork() == 0) { fork(); _exit(0); } else wait(0); }",
    );
    let command = format!("{} {{pm}}", program.display());
    let mut sandbox = fixture.sandbox(&command);
    let outcome = run_as(&mut sandbox, &RunRequest::new(Duration::from_millis(200)));
    assert_eq!(outcome.end, End::TimedOut);
    drop(sandbox);
    assert_eq!(processes_with(program.to_str().unwrap()), 0);
}

/// A thread that waits for a lock that another holds, which waits for the first.
const DEADLOCK: &str = r#"
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *thread(void *argument) { pthread_mutex_lock(&lock); return argument; }
int main(void) {
    pthread_t id;
    pthread_mutex_lock(&lock);
    pthread_create(&id, 0, thread, 0);
    return pthread_join(id, 0);
}
"#;

#[test]
fn a_deadlock_does_not_last_until_the_time_limit() {
    let fixture = Fixture::set_up();
    let program = fixture.compile("deadlock", DEADLOCK);
    // The script waits for the program, and another process for its output.
    let command = format!("{} {{pm}} | cat", program.display());
    let request = RunRequest::new(Duration::from_secs(300));
    let outcome = run_as(&mut fixture.sandbox(&command), &request);
    assert_eq!(outcome.end, End::TimedOut);
    assert!(outcome.duration < request.time_limit, "{outcome:?}");
}

#[test]
fn a_recovery_that_sleeps_is_not_taken_for_stuck() {
    let fixture = Fixture::set_up();
    let request = RunRequest::new(Duration::from_secs(300));
    let outcome = run_as(&mut fixture.sandbox("sleep 3; echo {pm} | cat"), &request);
    assert_eq!(outcome.end, End::Exited(0));
}
