//! Recovered servers and their clients.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use brownout_recovery::{Actor, End, Readiness, Recovery, Sandbox};

use crate::*;

/// Answers each connection to port 7777, or to the socket `served`, with the content of `pool`; needs half a second to
/// start, and does not reuse its address.
const SERVER: &str = r#"
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int unix_socket = argc > 1 && !strcmp(argv[1], "unix");
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(7777)};
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "served"};
    usleep(50000);
    int listener = socket(unix_socket ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
    struct sockaddr *address = unix_socket ? (void *)&un : (void *)&in;
    if (bind(listener, address, unix_socket ? sizeof un : sizeof in)) {
        perror("bind");
        return 9;
    }
    if (argc > 1 && !strcmp(argv[1], "daemon") && daemon(1, 0)) return 8;
    listen(listener, 5);
    puts("ready to serve");
    fflush(stdout);
    if (argc > 1 && !strcmp(argv[1], "file")) close(open("ready", O_CREAT | O_WRONLY, 0600));
    for (;;) {
        char text[100] = {0};
        int connection = accept(listener, 0, 0);
        if (argc > 1 && !strcmp(argv[1], "crash")) abort();
        int pool = open("pool", O_RDONLY);
        write(connection, text, read(pool, text, sizeof text));
        close(pool);
        close(connection);
    }
}
"#;

/// Prints what it receives from there.
const CLIENT: &str = r#"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int unix_socket = argc > 1 && !strcmp(argv[1], "unix");
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(7777)};
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "served"};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int connection = socket(unix_socket ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
    struct sockaddr *address = unix_socket ? (void *)&un : (void *)&in;
    if (connect(connection, address, unix_socket ? sizeof un : sizeof in)) {
        perror("connect");
        return 7;
    }
    char text[100] = {0};
    read(connection, text, sizeof text - 1);
    fputs(text, stdout);
    if (argc > 1 && !strcmp(argv[1], "crash")) sleep(5);
    return strcmp(text, "crash image") != 0;
}
"#;

fn served(fixture: &Fixture, kind: &str, ready: Readiness) -> Recovery {
    let server = fixture.compile("server", SERVER);
    let client = fixture.compile("client", CLIENT);
    let mut recovery = fixture.recovery(&format!("{} {kind}", server.display()));
    recovery.client = Some(format!("{} {kind}", client.display()));
    recovery.ready = Some(ready);
    recovery
}

#[test]
fn servers_on_one_port_run_side_by_side_and_one_after_the_other() {
    if !layers_are_possible() {
        return;
    }
    let fixture = Fixture::set_up();
    let recovery = served(&fixture, "tcp", Readiness::Tcp(7777));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut sandbox =
                    Sandbox::start(&sandbox_server(), &recovery, &fixture.files()).unwrap();
                for round in 0..3 {
                    let outcome = run(&mut sandbox);
                    let said = text(&outcome.stderr);
                    assert_eq!(
                        (outcome.end, outcome.actor),
                        (End::Exited(0), Actor::Client),
                        "{round}: {said}"
                    );
                    assert_eq!(text(&outcome.stdout), IMAGE);
                    assert_eq!(said, "ready to serve\n");
                    assert!(outcome.succeeded(&recovery));
                }
            });
        }
    });
}

#[test]
fn readiness_is_detected_by_each_sign() {
    if !layers_are_possible() {
        return;
    }
    let ways = [
        ("unix", Readiness::Unix(PathBuf::from("served"))),
        ("file", Readiness::File(PathBuf::from("ready"))),
        ("tcp", Readiness::Output("ready to".to_owned())),
        ("daemon", Readiness::Tcp(7777)),
    ];
    for (kind, ready) in ways {
        let fixture = Fixture::set_up();
        let recovery = served(&fixture, kind, ready);
        let mut sandbox = Sandbox::start(&sandbox_server(), &recovery, &fixture.files()).unwrap();
        for _ in 0..2 {
            let outcome = run(&mut sandbox);
            assert!(
                outcome.succeeded(&recovery),
                "{kind}: {outcome:?} {}",
                text(&outcome.stderr)
            );
            assert_eq!(text(&outcome.stdout), IMAGE);
        }
    }
}

#[test]
fn a_failing_client_decides_the_outcome() {
    if !layers_are_possible() {
        return;
    }
    let fixture = Fixture::set_up();
    let mut recovery = served(&fixture, "tcp", Readiness::Tcp(7777));
    recovery.client = Some("exit 3".to_owned());
    let mut sandbox = Sandbox::start(&sandbox_server(), &recovery, &fixture.files()).unwrap();
    let outcome = run(&mut sandbox);
    assert_eq!(
        (outcome.end, outcome.actor),
        (End::Exited(3), Actor::Client)
    );
}

#[test]
fn a_server_that_dies_before_its_client_decides_the_outcome() {
    if !layers_are_possible() {
        return;
    }
    let fixture = Fixture::set_up();
    let recovery = served(&fixture, "crash", Readiness::Tcp(7777));
    let mut sandbox = Sandbox::start(&sandbox_server(), &recovery, &fixture.files()).unwrap();
    let outcome = run(&mut sandbox);
    assert_eq!(
        (outcome.end, outcome.actor),
        (End::Signaled(6), Actor::Recovery)
    );
    assert!(!outcome.succeeded(&recovery));
}

#[test]
fn a_server_that_is_never_ready_decides_the_outcome() {
    let fixture = Fixture::set_up();
    let cases = [
        ("true {pm}", End::Exited(0)),
        ("exit 5", End::Exited(5)),
        ("sleep 100", End::TimedOut),
    ];
    for (command, end) in cases {
        let mut recovery = fixture.recovery(command);
        recovery.client = Some("true {pm}".to_owned());
        recovery.ready = Some(Readiness::File(PathBuf::from("never")));
        let mut sandbox = Sandbox::start(&sandbox_server(), &recovery, &fixture.files()).unwrap();
        let mut run = quick();
        run.time_limit = Duration::from_millis(300);
        let outcome = run_as(&mut sandbox, &run);
        assert_eq!(
            (outcome.end, outcome.actor),
            (end, Actor::Recovery),
            "{command}"
        );
        assert!(!outcome.succeeded(&recovery), "{command}");
    }
}

#[test]
fn a_server_is_asked_to_stop_and_killed_if_it_does_not() {
    let fixture = Fixture::set_up();
    let mut recovery =
        fixture.recovery("trap 'echo asked >&2' TERM; echo up; while :; do sleep 0.01; done");
    recovery.client = Some("true {pm}".to_owned());
    recovery.ready = Some(Readiness::Output("up".to_owned()));
    recovery.stop_grace = Duration::from_millis(200);
    let mut sandbox = Sandbox::start(&sandbox_server(), &recovery, &fixture.files()).unwrap();
    let started = Instant::now();
    let outcome = run(&mut sandbox);
    assert_eq!(
        (outcome.end, outcome.actor),
        (End::Exited(0), Actor::Client)
    );
    assert!(text(&outcome.stderr).contains("asked"));
    assert!(started.elapsed() >= recovery.stop_grace && started.elapsed() < Duration::from_secs(5));
}
