//! How runs end, and their output.

use std::time::Duration;

use brownout_recovery::{Actor, End, ExecutionMode, Refusal, RunRequest, Sandbox, SandboxError};

use crate::*;

#[test]
fn recovery_finds_the_images_at_the_paths_of_the_files() {
    let fixture = Fixture::set_up();
    let command = if layers_are_possible() {
        "cat pool pool2 {pm} {pm:2}"
    } else {
        "cat {pm} {pm:2} {pm} {pm:2}"
    };
    let mut sandbox = fixture.sandbox(command);
    let outcome = run(&mut sandbox);
    assert_eq!(outcome.end, End::Exited(0), "{}", text(&outcome.stderr));
    assert_eq!(text(&outcome.stdout), IMAGE.repeat(4));
    assert!(outcome.stdout_complete && outcome.stderr.is_empty());
    assert_eq!(outcome.actor, Actor::Recovery);
    fixture.assert_untouched();
}

#[test]
fn each_exit_status_is_reported() {
    let fixture = Fixture::set_up();
    let mut sandbox = fixture.sandbox("exit $STATUS # {pm}");
    for status in [0, 1, 2, 42, 126, 127, 128, 255] {
        let mut run = quick();
        run.environment
            .push(("STATUS".to_owned(), status.to_string()));
        let outcome = run_as(&mut sandbox, &run);
        assert_eq!(outcome.end, End::Exited(status));
        assert_eq!(outcome.succeeded(&fixture.recovery("")), status == 0);
    }
}

#[test]
fn each_fatal_signal_is_reported() {
    let fixture = Fixture::set_up();
    let mut sandbox = fixture.sandbox("kill -$SIGNAL $$ # {pm}");
    // Including the first real-time signal.
    for signal in [
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 25, 30, 31, 34, 64,
    ] {
        let mut run = quick();
        run.environment
            .push(("SIGNAL".to_owned(), signal.to_string()));
        assert_eq!(run_as(&mut sandbox, &run).end, End::Signaled(signal));
    }
}

#[test]
fn a_run_that_takes_too_long_is_ended() {
    let fixture = Fixture::set_up();
    let mut sandbox =
        fixture.sandbox("trap '' TERM INT HUP; echo begun; while :; do sleep 10; done # {pm}");
    let outcome = run_as(&mut sandbox, &RunRequest::new(Duration::from_millis(200)));
    assert_eq!(outcome.end, End::TimedOut);
    assert_eq!(text(&outcome.stdout), "begun\n");
    assert!(outcome.duration >= Duration::from_millis(200));
    assert!(outcome.duration < Duration::from_secs(5));
}

#[test]
fn a_missing_command_is_reported_by_the_shell() {
    let fixture = Fixture::set_up();
    let outcome = run(&mut fixture.sandbox("no-such-program {pm}"));
    assert_eq!(outcome.end, End::Exited(127));
    assert!(text(&outcome.stderr).contains("no-such-program"));
}

#[test]
fn standard_input_is_empty() {
    let fixture = Fixture::set_up();
    let outcome = run(&mut fixture.sandbox("wc -c # {pm}"));
    assert_eq!(text(&outcome.stdout).trim(), "0");
}

#[test]
fn output_of_megabytes_is_kept_from_its_beginning_and_errors_to_their_end() {
    let fixture = Fixture::set_up();
    let mut sandbox =
        fixture.sandbox("yes | head -c 30000000; (yes x | head -c 30000000; echo end) >&2 # {pm}");
    let outcome = run(&mut sandbox);
    assert_eq!(outcome.end, End::Exited(0));
    assert!(!outcome.stdout_complete);
    assert!(outcome.stdout.len() >= 1 << 20 && outcome.stdout.starts_with(b"y\ny\n"));
    assert!(!outcome.stdout.contains(&0));
    assert!(outcome.stderr.len() >= 10_000 && outcome.stderr.ends_with(b"x\nend\n"));
    assert!(!outcome.stderr.contains(&0));
    // The output of the next run does not contain it.
    assert_eq!(
        run(&mut fixture.sandbox("echo short # {pm}")).stdout,
        b"short\n"
    );
}

#[test]
fn a_directory_that_does_not_exist_is_refused() {
    let fixture = Fixture::set_up();
    let mut recovery = fixture.recovery("true {pm}");
    recovery.directory = fixture.path().join("nowhere");
    let error = Sandbox::start(&sandbox_server(), &recovery, &fixture.files()).unwrap_err();
    assert!(
        matches!(&error, SandboxError::Refused(Refusal::Directory { path }) if *path == recovery.directory),
        "{error}"
    );
}

#[test]
fn a_placeholder_without_a_file_is_refused() {
    let fixture = Fixture::set_up();
    let recovery = fixture.recovery("check {pm:3}");
    let error = Sandbox::start(&sandbox_server(), &recovery, &fixture.files()).unwrap_err();
    assert!(
        matches!(
            error,
            SandboxError::Refused(Refusal::Placeholder { files: 2, .. })
        ),
        "{error}"
    );
}

#[test]
fn no_signal_is_blocked_or_ignored() {
    let fixture = Fixture::set_up();
    // Not through a shell, which would set the mask itself.
    let mut sandbox = fixture.sandbox("grep Sig /proc/self/status {pm}");
    for execution in [ExecutionMode::Native, ExecutionMode::Traced] {
        let outcome = run_as(
            &mut sandbox,
            &RunRequest {
                execution,
                ..quick()
            },
        );
        let printed = text(&outcome.stdout);
        assert!(printed.contains("SigBlk:\t0000000000000000"), "{printed}");
        let ignored = printed
            .lines()
            .find_map(|line| line.split("SigIgn:\t").nth(1));
        // Signals that the C library uses internally do not count.
        let ignored = u64::from_str_radix(ignored.unwrap(), 16).unwrap() & 0x7fff_ffff;
        assert_eq!(ignored, 0, "{printed}");
    }
}
