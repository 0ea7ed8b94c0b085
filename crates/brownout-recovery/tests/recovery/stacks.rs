//! Where recoveries were when they failed.

use std::time::Duration;

use brownout_recovery::{End, ExecutionMode, Outcome, RunRequest};
use brownout_symbols::{BuildId, FileOffset, Probe, Symbolizer};

use crate::*;

/// Fails in the way its first argument says, in `innermost`, called by `middle`, called by `main`.
const FAILING: &str = r#"
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *way;
static int *volatile nothing;
static void (*volatile nowhere)(void);
static volatile int depth;
static volatile unsigned spin;

static int is(const char *name) { return !strcmp(way, name); }
static void handler(int signal) { (void)signal; exit(5); }

static int recurse(int n) {
    volatile char frame[4096];
    frame[0] = n;
    return recurse(n + 1) + frame[0];
}

void innermost(int n) {
    if (is("exit")) exit(3);
    if (is("abort")) abort();
    if (is("assert")) assert(n == 12345);
    if (is("null")) *nothing = n;
    if (is("nowhere")) nowhere();
    if (is("recursion")) depth = recurse(n);
    if (is("spin")) for (;;) spin++;
    if (is("sleep")) for (;;) sleep(100);
    if (is("handler")) { signal(SIGSEGV, handler); *nothing = n; }
    raise(atoi(way));
}

void middle(int n) { innermost(n + 1); depth++; }

static void *thread(void *argument) { middle(1); return argument; }

int main(int argc, char **argv) {
    way = argv[1];
    if (argc > 2 && !strcmp(argv[2], "thread")) {
        pthread_t id;
        pthread_create(&id, 0, thread, 0);
        pthread_join(id, 0);
    } else if (argc > 2 && !strcmp(argv[2], "child")) {
        int status = 0;
        if (fork() == 0) { middle(1); _exit(0); }
        wait(&status);
        _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    } else {
        middle(argc);
    }
    return 0;
}
"#;

/// The functions of `failing` on a stack; for other code the name of its file.
fn functions(outcome: &Outcome) -> Vec<String> {
    let mut symbolizer = Symbolizer::new();
    let mut names = Vec::new();
    for frame in &outcome.frames {
        let Some(path) = &frame.module else {
            names.push("nowhere".to_owned());
            continue;
        };
        let file = path.file_name().unwrap().to_str().unwrap();
        if file != "failing" {
            names.push(file.to_owned());
            continue;
        }
        let module = symbolizer.add_module(path, BuildId::new(&frame.build_id).as_ref());
        let offset = FileOffset(frame.offset);
        let probe = if frame.is_return {
            Probe::ReturnAddress(offset)
        } else {
            Probe::Instruction(offset)
        };
        let found = symbolizer.frames(module, probe);
        names.extend(
            found
                .iter()
                .map(|frame| frame.function.clone().unwrap_or("?".to_owned())),
        );
    }
    names
}

struct Failing {
    fixture: Fixture,
}

impl Failing {
    fn new() -> Self {
        let fixture = Fixture::set_up();
        fixture.compile("failing", FAILING);
        Self { fixture }
    }

    fn run(&self, command: &str, time_limit: Duration) -> (End, Vec<String>) {
        let mut run = RunRequest::new(time_limit);
        run.execution = ExecutionMode::Traced;
        // Without namespaces the command must contain it.
        let command = format!("{command} {{pm}}");
        let outcome = run_as(&mut self.fixture.sandbox(&command), &run);
        (outcome.end, functions(&outcome))
    }

    /// Runs `failing` with these arguments, and checks its end and that its stack contains these functions, in order.
    fn fails(&self, command: &str, end: End, stack: &[&str]) {
        let (found, functions) = self.run(command, Duration::from_secs(20));
        assert_eq!(found, end, "{command}");
        assert_in_order(command, &functions, stack);
    }
}

fn assert_in_order(command: &str, functions: &[String], stack: &[&str]) {
    let mut rest = functions.iter();
    for name in stack {
        assert!(
            rest.any(|function| function == name),
            "{command}: no {name} in {functions:?}"
        );
    }
}

const CHAIN: [&str; 3] = ["innermost", "middle", "main"];

#[test]
fn of_an_exit_with_a_status() {
    let failing = Failing::new();
    failing.fails(
        "./failing exit",
        End::Exited(3),
        &["innermost", "middle", "main"],
    );
    failing.fails(
        "./failing exit thread",
        End::Exited(3),
        &["innermost", "middle", "thread"],
    );
}

#[test]
fn of_each_fatal_signal() {
    let failing = Failing::new();
    for signal in [
        1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 24, 25, 31, 34, 64,
    ] {
        failing.fails(
            &format!("./failing {signal}"),
            End::Signaled(signal),
            &CHAIN,
        );
    }
    // SIGKILL leaves no stack.
    let (end, functions) = failing.run("./failing 9", Duration::from_secs(20));
    assert_eq!((end, functions), (End::Signaled(9), vec![]));
}

#[test]
fn of_crashes_that_the_processor_detects() {
    let failing = Failing::new();
    failing.fails("./failing null", End::Signaled(11), &CHAIN);
    let (_, functions) = failing.run("./failing null", Duration::from_secs(20));
    assert_eq!(functions[0], "innermost");
    failing.fails(
        "./failing null thread",
        End::Signaled(11),
        &["innermost", "middle", "thread"],
    );
    failing.fails(
        "./failing nowhere",
        End::Signaled(11),
        &["nowhere", "innermost", "middle", "main"],
    );
    failing.fails("./failing recursion", End::Signaled(11), &["recurse"; 100]);
}

#[test]
fn of_failed_assertions() {
    let failing = Failing::new();
    failing.fails(
        "./failing abort",
        End::Signaled(6),
        &["innermost", "middle", "main"],
    );
    failing.fails("./failing assert", End::Signaled(6), &CHAIN);
}

#[test]
fn of_an_exit_from_a_signal_handler() {
    let failing = Failing::new();
    failing.fails(
        "./failing handler",
        End::Exited(5),
        &["handler", "innermost", "middle", "main"],
    );
}

#[test]
fn of_what_a_sanitizer_reports() {
    let failing = Failing::new();
    failing
        .fixture
        .compile_with(&["-fsanitize=address"], "failing", FAILING);
    failing.fails("./failing null", End::Exited(1), &CHAIN);
    failing.fails("./failing exit", End::Exited(3), &CHAIN);
}

#[test]
fn of_what_a_shell_or_a_parent_passes_on() {
    let failing = Failing::new();
    failing.fails("true && ./failing exit", End::Exited(3), &CHAIN);
    failing.fails("./failing null; exit $? #", End::Exited(139), &CHAIN);
    failing.fails(
        "false; true; ./failing abort || exit 134 #",
        End::Exited(134),
        &CHAIN,
    );
}

#[test]
fn of_the_checked_program_and_not_of_what_compares() {
    let failing = Failing::new();
    failing.fails(
        "./failing exit; echo expected | cmp -s - /dev/null || exit 1 #",
        End::Exited(1),
        &CHAIN,
    );
    failing.fails(
        "./failing abort; grep -q expected /dev/null || exit 7 #",
        End::Exited(7),
        &CHAIN,
    );
    // No program has failed: what was printed says more than where the comparison exits.
    let script = "./failing 0; echo expected | diff - /dev/null || exit 1 #";
    let (end, functions) = failing.run(script, Duration::from_secs(20));
    assert_eq!((end, functions), (End::Exited(1), vec![]));
}

#[test]
fn of_a_run_that_takes_too_long() {
    let failing = Failing::new();
    for way in ["spin", "sleep"] {
        for (arguments, root) in [("", "main"), ("thread", "thread"), ("child", "main")] {
            for shell in ["", "true; "] {
                let command = format!("{shell}./failing {way} {arguments}");
                let (end, functions) = failing.run(&command, Duration::from_millis(150));
                assert_eq!(end, End::TimedOut);
                assert_in_order(&command, &functions, &["innermost", "middle", root]);
            }
        }
    }
}

#[test]
fn a_success_has_no_stack_and_does_not_notice_the_tracing() {
    let failing = Failing::new();
    let (end, functions) = failing.run("./failing 0", Duration::from_secs(20));
    assert_eq!((end, functions), (End::Exited(0), vec![]));
    // Stopping and continuing, threads and children work as usual.
    let script = "sh -c 'kill -STOP $$; exit 0' & sleep 0.1; kill -CONT $!; wait $! && exec true";
    let (end, functions) = failing.run(script, Duration::from_secs(20));
    assert_eq!((end, functions), (End::Exited(0), vec![]));
}
