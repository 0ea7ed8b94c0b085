//! Small targets in C, executed on one input after the other.

mod clients;
mod comparisons;
mod fixture;
mod fork_points;
mod isolation;
mod pinned;

use brownout_engine::fuzz::{CopyEnd, ForkPoint, OperationKind, PmOperation};
use fixture::{Target, run};

/// Opens the pool, then reads its input: `s` stores and persists, `l` loads, `x` exits, `c` crashes, `h` hangs.
const COMMANDS: &str = "
  open_pool(argv[1]);
  char line[64]; ssize_t len = read(0, line, sizeof line);
  for (ssize_t at = 0; at < len; at++) switch (line[at]) {
    case 's': pool[8]++; persist(pool + 8); break;
    case 'l': if (pool[8] > 1) pool[16] = pool[8]; break;
    case 'x': exit(3);
    case 'c': *(volatile int *)16 = 1;
    case 'a': abort();
    case 'h': for (;;) ;
  }
";

#[test]
fn the_same_input_gives_the_same_counts_and_another_path_other_transitions() {
    let target = Target::new("", COMMANDS);
    let mut server = target.start();
    assert_eq!(server.fork_point(), ForkPoint::Input);
    let first = run(&mut server, b"sls");
    assert_eq!(first.end, CopyEnd::Exited(0));
    assert!(first.edges.iter().any(|&count| count > 0));
    assert!(!first.transitions.is_empty());
    for _ in 0..3 {
        assert_eq!(run(&mut server, b"sls"), first);
    }
    let shorter = run(&mut server, b"s");
    assert!(first.new_transitions(&shorter) > 0);
    let other = run(&mut server, b"ssl");
    assert!(
        other.new_transitions(&first) > 0,
        "the load leads to a store"
    );
    assert_eq!(run(&mut server, b"sls"), first);
}

#[test]
fn ends_of_executions_are_told_apart() {
    let mut target = Target::new("", COMMANDS);
    target.options.timeout = std::time::Duration::from_secs(2);
    let mut server = target.start();
    let ends = [
        (&b"x"[..], CopyEnd::Exited(3)),
        (b"c", CopyEnd::Killed(11)),
        (b"a", CopyEnd::Killed(6)),
        (b"h", CopyEnd::TimedOut),
        (b"", CopyEnd::Exited(0)),
    ];
    for (input, expected) in ends {
        assert_eq!(run(&mut server, input).end, expected, "{input:?}");
    }
}

#[test]
fn code_that_an_execution_is_the_first_to_meet_is_translated_once() {
    let target = Target::new("", COMMANDS);
    let mut server = target.start();
    server.execute(b"s").unwrap();
    let first = server.execute(b"ssl").unwrap().translated_blocks();
    assert!(first > 0, "the load and the store after it are new");
    // The first copy that meets code links it; the second meets what that has led to.
    server.execute(b"ssl").unwrap();
    assert_eq!(server.execute(b"ssl").unwrap().translated_blocks(), 0);
}

#[test]
fn an_operation_is_known_by_its_place() {
    let target = Target::new("", COMMANDS);
    let mut server = target.start();
    let seen = run(&mut server, b"s");
    let operations: Vec<_> = (seen.transitions.iter())
        .map(|(transition, _)| server.operation(transition.to).unwrap())
        .collect();
    let has = |kind| operations.iter().any(|operation| operation.kind == kind);
    assert!(has(OperationKind::Store) && has(OperationKind::Flush) && has(OperationKind::Fence));
    let program = &target.options.command[0];
    let in_program = |operation: &PmOperation| {
        let place = operation.place.as_ref();
        place.is_some_and(|place| place.path.as_os_str() == program && place.offset > 0)
    };
    assert!(operations.iter().all(in_program), "{operations:?}");
}

#[test]
fn calls_that_make_stores_durable_are_operations() {
    let target = Target::new(
        "",
        "open_pool(argv[1]);
         char byte = 0; read(0, &byte, 1);
         pool[0] = 1;
         if (byte == 'm') msync((void *)pool, 4096, MS_SYNC);
         if (byte == 'f') fsync(fd);
         if (byte == 'o') fsync(0);",
    );
    let mut server = target.start();
    let nothing = run(&mut server, b"-");
    assert_eq!(run(&mut server, b"o").new_transitions(&nothing), 0);
    let synced = run(&mut server, b"m");
    assert_eq!(synced.new_transitions(&nothing), 1);
    assert_eq!(run(&mut server, b"f").new_transitions(&synced), 1);
    let mut new = synced.transitions.iter();
    let sync = new.find(|at| !nothing.transitions.contains(at)).unwrap();
    let operation = server.operation(sync.0.to).unwrap();
    assert_eq!(operation.kind, OperationKind::Call);
}

#[test]
fn inside_a_library_the_call_that_led_there_tells_operations_apart() {
    let target = Target::new(
        "static char text[4096];",
        "open_pool(argv[1]);
         char byte = 0; read(0, &byte, 1);
         if (byte == 'a') memcpy((char *)pool + 64, text, argc * 700);
         if (byte == 'b') memcpy((char *)pool + 64, text, argc * 700);",
    );
    let mut server = target.start();
    let one = run(&mut server, b"a");
    let other = run(&mut server, b"b");
    assert!(other.new_transitions(&one) > 0);
    let last = other.transitions.last().unwrap().0;
    let operation = server.operation(last.to).unwrap();
    assert_eq!(operation.kind, OperationKind::Store);
    let caller = operation.caller.expect("memcpy is in the C library");
    assert_eq!(caller.path.as_os_str(), target.options.command[0]);
    assert_ne!(operation.place.unwrap().path, caller.path);
}
