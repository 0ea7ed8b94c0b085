//! Nothing is left when the caller is killed at any moment.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::*;

/// Starts callers whose recovery leaves daemons and files, kills each after a different time, and checks that nothing is left.
fn leaves_nothing(isolation: &str, times: u64) {
    let fixture = Fixture::set_up();
    let tag = format!("brownout-killed-{isolation}-{}", std::process::id());
    std::fs::write(
        fixture.path().join(&tag),
        "trap '' TERM HUP INT\nwhile :; do sleep 100; done\n",
    )
    .unwrap();
    let command = format!("(setsid sh {tag} &); echo x > $TMPDIR/{tag}; rm -f {{pm}}; sleep 0.02");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let names = || std::fs::read_dir(fixture.path()).unwrap().count() + abandoned_directories();
    let before = names();
    for round in 0..times {
        let mut caller = Command::new(env!("CARGO_BIN_EXE_serve-sandbox"))
            .arg(isolation)
            .arg(fixture.path())
            .arg(&command)
            .env("BROWNOUT_TEST", &tag)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Spread evenly over the start of the sandbox server and the first runs.
        std::thread::sleep(Duration::from_millis(round * 37 % times * 120 / times));
        caller.kill().unwrap();
        caller.wait().unwrap();
        let patience = Instant::now() + Duration::from_secs(10);
        while processes_with(&tag) > 0 {
            assert!(
                Instant::now() < patience,
                "round {round}: processes are left"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(names(), before, "round {round}");
    }
    assert_eq!(
        std::fs::read_to_string("/proc/self/mountinfo").unwrap(),
        mounts
    );
    fixture.assert_untouched();
}

/// Private directories whose sandbox server, named by its process number, has ended.
fn abandoned_directories() -> usize {
    let names = std::fs::read_dir("/dev/shm")
        .into_iter()
        .flatten()
        .flatten();
    names
        .filter(|entry| {
            let name = entry.file_name().into_string().unwrap_or_default();
            let server = name
                .strip_prefix("brownout-recovery-")
                .and_then(|rest| rest.split('-').next());
            server.is_some_and(|server| !Path::new("/proc").join(server).exists())
        })
        .count()
}

#[test]
fn in_namespaces() {
    if layers_are_possible() {
        leaves_nothing("layered", 50);
    }
}

#[test]
fn without_namespaces() {
    leaves_nothing("directory", 20);
}

#[test]
fn the_sandbox_server_itself() {
    if !layers_are_possible() {
        return;
    }
    let fixture = Fixture::set_up();
    let tag = format!("brownout-killed-server-{}", std::process::id());
    let mut caller = Command::new(env!("CARGO_BIN_EXE_serve-sandbox"))
        .arg("layered")
        .arg(fixture.path())
        .arg("(setsid sleep 100 &); sleep 0.1")
        .env("BROWNOUT_TEST", &tag)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Wait for the end of the first run.
    caller
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut [0])
        .unwrap();
    let pid = caller.id();
    let servers = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let server = servers
        .trim()
        .parse()
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(server.unwrap(), rustix::process::Signal::KILL).unwrap();
    let mut said = String::new();
    caller
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(!caller.wait().unwrap().success());
    assert!(said.contains("SandboxServerGone"), "{said}");
    let patience = Instant::now() + Duration::from_secs(10);
    while processes_with(&tag) > 0 {
        assert!(Instant::now() < patience, "processes are left");
        std::thread::sleep(Duration::from_millis(2));
    }
}
