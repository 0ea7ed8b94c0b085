//! `brownout fuzz --server`: the input is what clients send.

use std::fs;

use super::*;

/// A directory with the server, and seeds of one connection each.
fn server(seeds: &[&str]) -> TestDir {
    let dir = TestDir::with("fuzz/server.c", &["-g"]);
    dir.write_seeds(seeds);
    dir
}

#[test]
fn a_crash_behind_two_connections_is_found_and_replayed() {
    let dir = server(&["put\n%%\nput\n", "boom"]);
    let found = dir.fuzz_with(&["--server"], &["./server", "pool"], |found| {
        of_rule(found, "target-crashed").is_some()
    });
    let crash = of_rule(&found, "target-crashed").unwrap();
    let frames = crash["stacks"][0]["frames"].as_array().unwrap();
    assert!(
        frames.iter().any(|frame| frame["function"] == "serve"),
        "{crash:#}"
    );
    let input = dir.read(&format!("brownout.out/{}", detail(crash, "input")));
    assert!(
        input.contains("\n%%\n") && input.contains("boom"),
        "{input}"
    );
    assert!(input.len() < 40, "it is minimised: {input}");
    let replayed = dir.brownout(&["replay", "brownout.out", crash["id"].as_str().unwrap()]);
    assert_eq!(replayed.status, Some(1), "{}", replayed.stderr);
    assert!(
        replayed.stdout.contains("was killed by SIGABRT"),
        "{}",
        replayed.stdout
    );
}

#[test]
fn a_server_at_a_path_is_asked_to_end_when_its_input_is_consumed() {
    let dir = server(&["put\n"]);
    let is_it = |found: &[Value]| of_rule(found, "transient-data").is_some();
    let options = ["--server", "--fail-on", "warning"];
    let found = dir.fuzz_with(&options, &["./server", "pool", "./socket"], is_it);
    // What is stored after the signal is seen, and the end of the server is no failure of it.
    let lost = of_rule(&found, "transient-data").unwrap();
    let line = lost["stacks"][0]["frames"][0]["line"].as_u64().unwrap();
    let source = fs::read_to_string(dir.path("server.c")).unwrap();
    let line = source.lines().nth(line as usize - 1).unwrap();
    assert!(line.contains("forgotten++"), "{line}");
    assert!(of_rule(&found, "target-crashed").is_none());
    assert!(of_rule(&found, "target-hung").is_none());
    assert!(!dir.path("socket").exists() && !dir.path("pool").exists());
}

#[test]
fn a_program_that_does_not_get_its_input_is_not_reported_as_tested() {
    let dir = TestDir::store(&["put 1\n"]);
    let limit = ["fuzz", "--time-limit", "1s", "--jobs", "1"];
    for (options, program) in [
        // It reads standard input, and no client can connect.
        (&["--server"][..], &["./store", "pool"][..]),
        // It reads another file than the input.
        (&[], &["./store", "pool", "seeds/0"]),
    ] {
        let _ = fs::remove_dir_all(dir.path("brownout.out"));
        let done = dir.brownout(&[&limit[..], options, &["--"], program].concat());
        assert_eq!(done.status, Some(3), "{}", done.stderr);
        assert!(
            done.stderr.contains("has not used its input"),
            "{}",
            done.stderr
        );
    }
    let both = dir.brownout(&["fuzz", "--server", "--", "./store", "pool", "@@"]);
    assert_eq!(both.status, Some(2), "{}", both.stderr);
    assert!(
        both.stderr.contains("exclude each other"),
        "{}",
        both.stderr
    );
}
