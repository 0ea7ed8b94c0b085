//! Recoveries that run under the engine, inside the sandbox.

use std::fs::File;
use std::sync::Arc;

use brownout_recovery::{
    End, EngineRun, ExecutionMode, Isolation, Outcome, Refusal, RunRequest, Sandbox, SandboxError,
};
use brownout_trace::{EventKind, ReadError, TraceReader};

use super::*;

/// Maps the pool, checks the image, repairs it and ends as its second argument says.
const RECOVERY: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int fd = open(argv[1], O_RDWR);
    char *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pool == MAP_FAILED || memcmp(pool, "crash image", 11)) return 99;
    *(volatile unsigned *)(pool + 64) = 0x12345678;
    __builtin_ia32_clflush(pool + 64);
    __builtin_ia32_sfence();
    write(1, "repaired\n", 9);
    if (!strcmp(argv[2], "abort")) abort();
    if (!strcmp(argv[2], "hang")) for (;;) pause();
    return atoi(argv[2]);
}
"#;

fn under_engine(sandbox: &mut Sandbox, trace: Option<&Arc<File>>) -> Outcome {
    let engine = EngineRun {
        loads: false,
        trace: trace.map(Arc::clone),
        reads: None,
        held: false,
        input: false,
    };
    let request = RunRequest {
        execution: ExecutionMode::Engine(engine),
        ..quick()
    };
    run_as(sandbox, &request)
}

/// The paths and values of all stores to persistent memory in a trace, and how many flushes and fences there are.
fn stores(trace: &File) -> (Vec<(String, u64, Vec<u8>)>, usize) {
    use std::io::Seek;
    let mut file = trace.try_clone().unwrap();
    file.rewind().unwrap();
    let mut reader = TraceReader::new(file).unwrap();
    let (mut stores, mut others) = (Vec::new(), 0);
    let read = reader.for_each(|event, definitions| {
        match event.kind {
            EventKind::Store { addr, bytes, .. } => {
                let process = definitions.process(event.process).unwrap();
                let range = process.address_space().resolve(addr, 1).unwrap();
                let path = definitions.file(range.file).unwrap().path.clone();
                stores.push((path.display().to_string(), range.offset, bytes.to_vec()));
            }
            EventKind::Flush { .. } | EventKind::Fence { .. } => others += 1,
            _ => {}
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    // A trace without its closing section is damaged at its end.
    assert!(matches!(read, Ok(_) | Err(ReadError::Damaged(_))));
    (stores, others)
}

#[test]
fn the_events_of_a_recovery_are_seen_and_its_verdict_is_the_native_one() {
    let fixture = Fixture::set_up();
    let program = fixture.compile("repair", RECOVERY);
    for isolation in [Isolation::Layered, Isolation::Directory] {
        for (how, end) in [
            ("0", End::Exited(0)),
            ("7", End::Exited(7)),
            ("abort", End::Signaled(6)),
        ] {
            let recovery = fixture.recovery(&format!("{} {{pm}} {how}", program.display()));
            let server = sandbox_server().at_most(isolation);
            let mut sandbox = Sandbox::start(&server, &recovery, &fixture.files()).unwrap();
            let native = run(&mut sandbox);
            assert_eq!(
                (native.end, text(&native.stdout).as_str()),
                (end, "repaired\n")
            );

            let trace = Arc::new(tempfile::tempfile().unwrap());
            let outcome = under_engine(&mut sandbox, Some(&trace));
            assert_eq!(outcome.end, end, "{}", text(&outcome.stderr));
            assert_eq!(text(&outcome.stdout), "repaired\n");
            let (stores, others) = stores(&trace);
            assert_eq!(stores.len(), 1, "{stores:?}");
            let (path, offset, bytes) = &stores[0];
            assert!(path.ends_with("pool"), "{path}");
            assert_eq!((*offset, &bytes[..]), (64, &[0x78, 0x56, 0x34, 0x12][..]));
            assert!(others >= 2, "a flush and a fence: {others}");
            if sandbox.isolation() == Isolation::Layered {
                assert_eq!(*path, fixture.files()[0].display().to_string());
            }
        }
    }
    fixture.assert_untouched();
}

#[test]
fn a_shell_command_and_all_its_children_run_under_the_engine() {
    let fixture = Fixture::set_up();
    let program = fixture.compile("repair", RECOVERY);
    let command = format!("{} {{pm}} 0 && {0} {{pm:2}} 0; exit 4", program.display());
    let mut sandbox = fixture.sandbox(&command);
    let trace = Arc::new(tempfile::tempfile().unwrap());
    let outcome = under_engine(&mut sandbox, Some(&trace));
    assert_eq!(outcome.end, End::Exited(4), "{}", text(&outcome.stderr));
    assert_eq!(stores(&trace).0.len(), 2);
}

#[test]
fn without_a_trace_the_events_are_discarded() {
    let fixture = Fixture::set_up();
    let program = fixture.compile("repair", RECOVERY);
    let mut sandbox = fixture.sandbox(&format!("{} {{pm}} 5", program.display()));
    assert_eq!(under_engine(&mut sandbox, None).end, End::Exited(5));
    // The sandbox can still run natively.
    assert_eq!(run(&mut sandbox).end, End::Exited(5));
}

#[test]
fn a_recovery_that_hangs_under_the_engine_is_killed_and_leaves_a_readable_trace() {
    let fixture = Fixture::set_up();
    let program = fixture.compile("repair", RECOVERY);
    let mut sandbox = fixture.sandbox(&format!("{} {{pm}} hang", program.display()));
    let trace = Arc::new(tempfile::tempfile().unwrap());
    let request = RunRequest {
        execution: ExecutionMode::Engine(EngineRun {
            loads: false,
            trace: Some(Arc::clone(&trace)),
            reads: None,
            held: false,
            input: false,
        }),
        ..RunRequest::new(std::time::Duration::from_secs(4))
    };
    let outcome = run_as(&mut sandbox, &request);
    assert_eq!(outcome.end, End::TimedOut);
    assert_eq!(stores(&trace).0.len(), 1);
    assert_eq!(
        run_as(
            &mut sandbox,
            &RunRequest::new(std::time::Duration::from_millis(300))
        )
        .end,
        End::TimedOut
    );
}

#[test]
fn a_program_that_the_engine_cannot_run_is_an_error_and_no_verdict() {
    let fixture = Fixture::set_up();
    let program = fixture.path().join("other-machine");
    // An ELF header of another machine (RISC-V).
    let mut header = vec![0_u8; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    header[16] = 2;
    header[18] = 243;
    std::fs::write(&program, header).unwrap();
    let mut permissions = std::fs::metadata(&program).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    std::fs::set_permissions(&program, permissions).unwrap();
    let mut sandbox = fixture.sandbox(&format!("{} {{pm}}", program.display()));
    for file in sandbox.files().unwrap() {
        write(file, IMAGE);
    }
    let request = RunRequest {
        execution: ExecutionMode::Engine(EngineRun::default()),
        ..quick()
    };
    let error = sandbox.run(&request).unwrap_err();
    let SandboxError::Refused(Refusal::Engine { reason }) = error else {
        panic!("{error}");
    };
    assert!(reason.contains("another processor"), "{reason}");
}

#[test]
fn a_missing_program_is_left_to_the_shell_to_report() {
    let fixture = Fixture::set_up();
    let mut sandbox = fixture.sandbox("no-such-program {pm}");
    let outcome = under_engine(&mut sandbox, None);
    assert_eq!(outcome.end, End::Exited(127));
    assert!(text(&outcome.stderr).contains("not found"));
}
