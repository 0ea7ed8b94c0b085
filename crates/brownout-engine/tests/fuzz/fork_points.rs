//! Where targets are copied.

use crate::fixture::{Target, run};
use brownout_engine::fuzz::{CopyEnd, ForkPoint, InputChannel, Obstacle};

#[test]
fn a_target_is_copied_before_it_asks_for_the_length_of_its_input() {
    let statements = "struct stat stat; fstat(0, &stat); return stat.st_size;";
    let target = Target::new("", statements);
    let mut server = target.start();
    assert_eq!(server.fork_point(), ForkPoint::Input);
    for input in ["", "abc", "abcdef"] {
        let end = run(&mut server, input.as_bytes()).end;
        assert_eq!(end, CopyEnd::Exited(input.len() as i32));
    }
}

#[test]
fn the_input_can_be_a_file() {
    let mut target = Target::new(
        "",
        "FILE *file = fopen(argv[2], \"r\"); char byte = 0; fread(&byte, 1, 1, file); return byte;",
    );
    let path = target.beside("input");
    target.options.command.push(path.clone().into());
    target.options.input = InputChannel::File(path);
    let mut server = target.start();
    assert_eq!(server.fork_point(), ForkPoint::Input);
    for byte in [9, 5, 9] {
        assert_eq!(run(&mut server, &[byte]).end, CopyEnd::Exited(byte.into()));
    }
}

#[test]
fn a_function_can_be_the_fork_point() {
    let mut target = Target::new(
        "int steps; __attribute__((noinline)) void serve(void) { steps += 10; }",
        "char byte = 0; read(0, &byte, 1); steps += byte; serve(); return steps;",
    );
    target.options.fork_at = Some("serve".into());
    let mut server = target.start();
    assert_eq!(server.fork_point(), ForkPoint::Input);
    // The input has been read before, when it was empty.
    assert_eq!(run(&mut server, &[3]).end, CopyEnd::Exited(10));
}

const THREADS: &str = "static void *idle(void *at) { pause(); return 0; }
static void begin(void) { pthread_t thread; pthread_create(&thread, 0, idle, 0); }";

#[test]
fn a_target_with_threads_is_copied_before_it_uses_its_files() {
    let target = Target::new(
        THREADS,
        "open_pool(argv[1]); uint64_t found = pool[0]++; begin();
         char byte = 0; read(0, &byte, 1); exit(found + byte);",
    );
    let mut server = target.start();
    let expected = ForkPoint::BeforeFiles(Obstacle::Threads(2));
    assert_eq!(server.fork_point(), expected);
    for byte in [1, 2, 1] {
        assert_eq!(run(&mut server, &[byte]).end, CopyEnd::Exited(byte.into()));
    }
}

#[test]
fn a_target_that_cannot_be_copied_is_started_for_each_execution() {
    let target = Target::new(
        THREADS,
        "begin(); char byte = 0; read(0, &byte, 1); open_pool(argv[1]); exit(pool[0]++ + byte);",
    );
    let mut server = target.start();
    let expected = ForkPoint::StartPerRun(Obstacle::Threads(2));
    assert_eq!(server.fork_point(), expected);
    let first = run(&mut server, &[1]);
    assert_eq!(first.end, CopyEnd::Exited(1));
    assert_eq!(run(&mut server, &[2]).end, CopyEnd::Exited(2));
    assert_eq!(run(&mut server, &[1]), first);
}

#[test]
fn a_target_that_does_not_use_its_input_says_so() {
    let target = Target::new("", "open_pool(argv[1]); return 4;");
    let mut server = target.start();
    let expected = ForkPoint::BeforeFiles(Obstacle::InputUnused);
    assert_eq!(server.fork_point(), expected);
    let execution = server.execute(b"x").unwrap();
    assert_eq!(execution.end, CopyEnd::Exited(4));
    assert!(!execution.used_input());
}
