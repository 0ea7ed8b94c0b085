//! What recoveries come to, and what is reported of it.

use std::fs;

use crate::{Place, crashes, functions, private_mounts_are_possible};

#[test]
fn a_count_that_is_persistent_too_early_is_found_with_both_stores() {
    let place = Place::new();
    let run = place.check("./slots {pm} check", &[], &["3", "early"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let findings = place.findings();
    assert_eq!(crashes(&findings), [("recovery-failed", 1)]);
    let finding = &findings[0];
    assert!(functions(finding, "failure point").contains(&"put"));
    assert!(functions(finding, "store that is there").contains(&"write_count"));
    assert!(functions(finding, "store that is missing").contains(&"write_slot"));
    let output = &finding["evidence"]["details"]["last output"];
    assert_eq!(output, "slot 0 is damaged");
    assert_eq!(finding["category"], "atomicity");
}

#[test]
fn the_right_order_is_no_finding() {
    let place = Place::new();
    let run = place.check("./slots {pm} check", &["--granularity", "store"], &["3"]);
    assert_eq!(run.status, Some(0), "{}{}", run.stderr, run.stdout);
    assert!(
        run.stderr.contains("recovery failed at 0"),
        "{}",
        run.stderr
    );
}

#[test]
fn the_users_file_stays_as_the_program_left_it() {
    if !private_mounts_are_possible() {
        return;
    }
    let place = Place::new();
    place.record(&[], &["3", "early"]);
    let before = fs::read(place.path("pool")).unwrap();
    let modified = fs::metadata(place.path("pool"))
        .unwrap()
        .modified()
        .unwrap();
    let options = ["--recover", "sh -c 'echo x > pool; echo y > other; exit 1'"];
    let mut arguments = vec!["crash", "trace", "--recover-success", "0,1"];
    arguments.extend(options);
    let run = place.brownout(&arguments);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(fs::read(place.path("pool")).unwrap() == before);
    assert_eq!(
        fs::metadata(place.path("pool"))
            .unwrap()
            .modified()
            .unwrap(),
        modified
    );
    assert!(!place.path("other").exists());
}

#[test]
fn a_recovery_that_is_killed_shows_where() {
    let place = Place::new();
    let run = place.check("./slots {pm} check abort", &[], &["3", "early"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let findings = place.findings();
    assert_eq!(crashes(&findings), [("recovery-crashed", 1)]);
    let recovery = functions(&findings[0], "recovery");
    assert!(
        recovery.contains(&"damaged") && recovery.contains(&"check"),
        "{recovery:?}"
    );
    assert!(
        run.stderr.contains("is killed by SIGABRT"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_recovery_that_does_not_end_is_told_from_a_slow_one() {
    let place = Place::new();
    let limit = ["--recover-time-limit", "300ms", "--no-narrowing"];
    let run = place.check("./slots {pm} check hang", &limit, &["1", "early"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let findings = place.findings();
    assert_eq!(crashes(&findings), [("recovery-hung", 1)]);
    assert!(functions(&findings[0], "recovery").contains(&"damaged"));
    let slow = "sh -c './slots {pm} check || { sleep 0.5; exit 0; }'";
    let run = place.check(slow, &limit, &["1", "early"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
}

#[test]
fn a_recovery_that_fails_without_a_crash_is_not_the_crashs_fault() {
    let place = Place::new();
    let run = place.check("sh -c 'echo no pool for me >&2; exit 3'", &[], &["2"]);
    assert_eq!(run.status, Some(4), "{}", run.stderr);
    assert!(run.stderr.contains("without any crash"), "{}", run.stderr);
    assert!(run.stderr.contains("no pool for me"), "{}", run.stderr);
    let run = place.check("./no-such-program {pm}", &[], &["2"]);
    assert!(matches!(run.status, Some(2 | 4)), "{}", run.stderr);
    assert!(run.stderr.contains("no-such-program"), "{}", run.stderr);
}

#[test]
fn replay_shows_a_crash_again() {
    let place = Place::new();
    place.check("./slots {pm} check", &[], &["3", "early"]);
    let finding = &place.findings()[0];
    let id = finding["id"].as_str().unwrap();
    let again = place.brownout(&["replay", "brownout.out", &id[..6]]);
    assert_eq!(again.status, Some(1), "{}", again.stderr);
    assert!(
        again.stdout.contains("slot 0 is damaged"),
        "{}",
        again.stdout
    );
    let token = finding["replay"].as_str().unwrap();
    let elsewhere = place.brownout(&["replay", "brownout.out/trace", token]);
    assert_eq!(elsewhere.status, Some(1), "{}", elsewhere.stderr);

    let kept = place.brownout(&["replay", "brownout.out", id, "--keep", "image"]);
    assert_eq!(kept.status, Some(0), "{}", kept.stderr);
    let image = fs::read(place.path("image")).unwrap();
    assert_eq!((image.len(), image[0]), (65536, 1), "one slot counts");
    assert!(image[1..].iter().all(|&byte| byte == 0), "none is written");
    let twice = place.brownout(&["replay", "brownout.out", id, "--keep", "image"]);
    assert_eq!(twice.status, Some(2), "nothing is overwritten");

    let unknown = place.brownout(&["replay", "brownout.out", "zzz"]);
    assert_eq!(unknown.status, Some(2));
    assert!(unknown.stderr.contains("zzz"), "{}", unknown.stderr);
    let cut = place.brownout(&["replay", "brownout.out/trace", &token[..20]]);
    assert_eq!(cut.status, Some(2), "{}", cut.stderr);
}

#[test]
fn replay_hands_over_to_gdb() {
    let place = Place::new();
    place.check("./slots {pm} check abort", &[], &["3", "early"]);
    let id = place.findings()[0]["id"].as_str().unwrap().to_owned();
    let run = place.brownout(&["replay", "brownout.out", &id, "--gdb"]);
    assert!(
        run.stdout.contains("SIGABRT"),
        "{}{}",
        run.stdout,
        run.stderr
    );
}
