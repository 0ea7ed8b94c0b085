//! Changes of files and processes by recoveries are discarded.

use std::process::{Command, Stdio};

use brownout_recovery::{End, Isolation, Sandbox};

use crate::*;

/// Runs a shell script with `pool` in its directory, checks that it succeeded, that the user's files are unchanged, and
/// that the next run finds the same state as the first.
fn leaves_no_trace(script: &str) {
    if !layers_are_possible() {
        return;
    }
    let fixture = Fixture::set_up();
    let before = std::fs::read_dir(fixture.path()).unwrap().count();
    let mut sandbox = fixture.sandbox(&format!(
        "cat pool bystander && ls | wc -l && {{ {script}; }}"
    ));
    for round in 0..3 {
        let outcome = run(&mut sandbox);
        assert_eq!(
            outcome.end,
            End::Exited(0),
            "{round}: {}",
            text(&outcome.stderr)
        );
        let expected = format!("{IMAGE}{ORIGINAL}{before}\n");
        assert_eq!(text(&outcome.stdout), expected, "round {round}");
        fixture.assert_untouched();
        assert_eq!(std::fs::read_dir(fixture.path()).unwrap().count(), before);
    }
}

#[test]
fn a_pool_that_is_written() {
    leaves_no_trace("echo recovered > pool");
}

#[test]
fn a_pool_that_is_deleted() {
    leaves_no_trace("rm pool && test ! -e pool");
}

#[test]
fn a_pool_that_is_renamed() {
    leaves_no_trace("mv pool other && test ! -e pool && grep -q crash other");
}

#[test]
fn a_pool_that_is_replaced() {
    leaves_no_trace("echo new > new && mv new pool && grep -q new pool");
}

#[test]
fn a_pool_that_is_exchanged_with_another() {
    leaves_no_trace("mv pool third && mv pool2 pool && mv third pool2");
}

#[test]
fn a_pool_that_becomes_a_directory() {
    leaves_no_trace("rm pool && mkdir pool && touch pool/x");
}

#[test]
fn another_file_that_is_changed_or_removed() {
    leaves_no_trace("echo changed > bystander");
    leaves_no_trace("rm bystander && test ! -e bystander");
    leaves_no_trace("chmod 000 bystander");
}

#[test]
fn new_files_and_directories() {
    leaves_no_trace("mkdir -p a/b && touch a/b/c && chmod 000 a/b a");
    leaves_no_trace("touch $TMPDIR/x && test $(ls $TMPDIR | wc -l) = 1 && chmod 000 $TMPDIR");
    leaves_no_trace("rmdir $TMPDIR");
}

#[test]
fn the_whole_directory_removed() {
    leaves_no_trace("rm -rf \"$PWD\"/*");
}

#[test]
fn files_in_the_root_directory() {
    let name = format!("/brownout-test-{}", std::process::id());
    leaves_no_trace(&format!(
        "test ! -e {name} && (echo x > {name} || test $(id -u) != 0)"
    ));
    assert!(!std::path::Path::new(&name).exists());
}

#[test]
fn shared_memory_of_both_kinds() {
    let name = format!("/dev/shm/brownout-test-{}", std::process::id());
    leaves_no_trace(&format!("test ! -e {name} && echo x > {name}"));
    leaves_no_trace("test $(ipcs -m | grep -c 0x) = 0 && ipcmk -M 4096 -Q -S 2 > $TMPDIR/x");
}

#[test]
fn daemons_die_with_the_run() {
    let fixture = Fixture::set_up();
    let tag = format!("brownout-daemon-{}", std::process::id());
    let script = fixture.path().join(&tag);
    std::fs::write(
        &script,
        "trap '' TERM HUP INT\nwhile :; do sleep 100; done\n",
    )
    .unwrap();
    let command = format!(
        "sh {tag} & setsid sh {tag} & (setsid sh -c 'sh {tag} & sh {tag} &' &); sleep 0.05; true {{pm}}"
    );
    let mut sandbox = fixture.sandbox(&command);
    for _ in 0..3 {
        assert_eq!(run(&mut sandbox).end, End::Exited(0));
        assert_eq!(processes_with(&tag), 0);
    }
    drop(sandbox);
    assert_eq!(processes_with(&tag), 0);
}

#[test]
fn processes_of_the_machine_are_invisible() {
    if !layers_are_possible() {
        return;
    }
    let fixture = Fixture::set_up();
    let tag = format!("brownout-outside-{}", std::process::id());
    let mut outside = Command::new("sh")
        .args(["-c", "cat", &tag])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let script = "cat /proc/[0-9]*/cmdline > $TMPDIR/all; ! grep -q $TAG $TMPDIR/all";
    let mut run = quick();
    run.environment.push(("TAG".to_owned(), tag));
    let outcome = run_as(&mut fixture.sandbox(script), &run);
    assert_eq!(outcome.end, End::Exited(0), "{}", text(&outcome.stderr));
    drop(outside.stdin.take());
    outside.wait().unwrap();
}

#[test]
fn recovery_has_the_three_standard_streams_and_no_other() {
    let fixture = Fixture::set_up();
    let mut sandbox =
        fixture.sandbox("readlink /proc/$$/fd/3 /proc/$$/fd/4 /proc/$$/fd/5 || echo {pm}");
    let outcome = run(&mut sandbox);
    assert_eq!(
        text(&outcome.stdout).lines().count(),
        1,
        "{}",
        text(&outcome.stdout)
    );
}

#[test]
fn what_a_run_leaves_in_the_pool_can_be_read() {
    let fixture = Fixture::set_up();
    let mut sandbox = fixture.sandbox("printf recovered > {pm}");
    run(&mut sandbox);
    let files = sandbox.files().unwrap();
    assert_eq!(
        (read(&files[0]), read(&files[1])),
        ("recovered".to_owned(), IMAGE.to_owned())
    );
}

#[test]
fn an_absent_file_does_not_exist() {
    let fixture = Fixture::set_up();
    let mut sandbox = fixture.sandbox("test ! -e {pm} && test -e {pm:2} && echo made > {pm}");
    let mut absent = quick();
    absent.absent = vec![0];
    for _ in 0..2 {
        let outcome = run_as(&mut sandbox, &absent);
        assert_eq!(outcome.end, End::Exited(0), "{}", text(&outcome.stderr));
        assert_eq!(run(&mut sandbox).end, End::Exited(1));
    }
    fixture.assert_untouched();
}

#[test]
fn missing_directories_of_a_pool_are_created() {
    if !layers_are_possible() {
        return;
    }
    let fixture = Fixture::set_up();
    let pool = fixture.path().join("not/there/yet/pool");
    let recovery = fixture.recovery("cat not/there/yet/pool; touch not/there/x");
    let mut sandbox =
        Sandbox::start(&sandbox_server(), &recovery, std::slice::from_ref(&pool)).unwrap();
    for _ in 0..2 {
        assert_eq!(text(&run(&mut sandbox).stdout), IMAGE);
    }
    assert!(!fixture.path().join("not").exists());
}

#[test]
fn without_layers_the_rest_is_read_only() {
    if !layers_are_possible() {
        return;
    }
    let fixture = Fixture::set_up();
    let server = sandbox_server().at_most(Isolation::ReadOnly);
    let script = "cat pool bystander; rm pool; echo new > new; mv new pool; echo x > $TMPDIR/x; \
                  ! touch /usr/brownout-test 2> $TMPDIR/y";
    let recovery = fixture.recovery(script);
    let mut sandbox = Sandbox::start(&server, &recovery, &fixture.files()).unwrap();
    assert_eq!(sandbox.isolation(), Isolation::ReadOnly);
    for _ in 0..3 {
        let outcome = run(&mut sandbox);
        assert_eq!(outcome.end, End::Exited(0), "{}", text(&outcome.stderr));
        assert_eq!(text(&outcome.stdout), format!("{IMAGE}{ORIGINAL}"));
        fixture.assert_untouched();
    }
}

#[test]
fn without_namespaces_the_command_gets_the_paths_of_the_files() {
    let fixture = Fixture::set_up();
    let server = sandbox_server().at_most(Isolation::Directory);
    let start =
        |command: &str| Sandbox::start(&server, &fixture.recovery(command), &fixture.files());
    let error = start("cat pool").unwrap_err().to_string();
    assert!(error.contains("{pm}"), "{error}");
    let mut sandbox = start("cat {pm} {pm:2}; rm {pm}; echo x > $TMPDIR/x; ls $TMPDIR").unwrap();
    assert_eq!(sandbox.isolation(), Isolation::Directory);
    for _ in 0..2 {
        let outcome = run(&mut sandbox);
        assert_eq!(
            text(&outcome.stdout),
            format!("{IMAGE}{IMAGE}x\n"),
            "{}",
            text(&outcome.stderr)
        );
    }
    fixture.assert_untouched();
}
