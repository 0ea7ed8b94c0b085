//! What recoveries come to, and what is reported of it.

use std::fs;

use crate::{TestDir, crash_rules, functions, private_mounts_are_possible, run_file};

#[test]
fn a_count_that_is_persistent_too_early_is_found_with_both_stores() {
    let dir = TestDir::new();
    let run = dir.check("./slots {pm} check", &[], &["3", "early"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let findings = dir.findings();
    assert_eq!(crash_rules(&findings), ["recovery-failed"]);
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
    let dir = TestDir::new();
    let run = dir.check("./slots {pm} check", &["--granularity", "store"], &["3"]);
    assert_eq!(run.status, Some(0), "{}{}", run.stderr, run.stdout);
    assert!(
        run.stderr.contains("recovery failed at 0"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_pipeline_that_hides_the_status_of_recovery_is_reported() {
    let dir = TestDir::new();
    let warning = "the last command of its pipeline";
    let run = dir.check("./slots {pm} check | sed -n p", &[], &["3", "early"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(run.stderr.matches(warning).count(), 1, "{}", run.stderr);
    let gaps = run_file(&dir.path("brownout.out"))["gaps"].to_string();
    assert!(gaps.contains(warning), "{gaps}");
    let sarif = dir.read("brownout.out/report.sarif");
    assert!(sarif.contains(warning), "{sarif}");
    // Here the last command decides, and does so.
    let run = dir.check(
        "./slots {pm} check 2>&1 | (! grep damaged)",
        &[],
        &["3", "early"],
    );
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(!run.stderr.contains(warning), "{}", run.stderr);
}

#[test]
fn a_recovery_whose_last_command_always_passes_has_tested_nothing() {
    let dir = TestDir::new();
    let last_command = "recovery passes whatever it finds, because its last command always does";
    let pipeline = "because the last command of its pipeline always does";
    for (recover, warning) in [
        ("./slots {pm} check; echo done", last_command),
        ("./slots {pm} check || true", last_command),
        ("./slots {pm} check & sleep 0.2", last_command),
        ("./slots {pm} check | cat", pipeline),
    ] {
        let run = dir.check(recover, &[], &["3", "early"]);
        assert_eq!(run.status, Some(3), "{recover}: {}", run.stderr);
        assert_eq!(run.stderr.matches(warning).count(), 1, "{}", run.stderr);
        let results = run_file(&dir.path("brownout.out"));
        assert_eq!(results["verdict"], "nothing-tested", "{results}");
        let reasons = results["reasons"].to_string();
        assert!(reasons.contains(warning), "{reasons}");
        let kinds = results["reason_kinds"].to_string();
        assert!(kinds.contains("hidden-status"), "{kinds}");
        assert!(!run.stderr.contains("crashes tested at"), "{}", run.stderr);
        let sarif = dir.read("brownout.out/report.sarif");
        assert!(sarif.contains(warning), "{sarif}");
        assert!(dir.read("brownout.out/junit.xml").contains("<error"));
    }
    let warning = "recovery passes if its last command does";
    let run = dir.check("./slots {pm} check > log; cat log", &[], &["3", "early"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let gaps = run_file(&dir.path("brownout.out"))["gaps"].to_string();
    assert!(gaps.contains(warning), "{gaps}");
    // Here the check decides.
    let recover = "set -e; ./slots {pm} check; echo done";
    let run = dir.check(recover, &[], &["3", "early"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(!run.stderr.contains(warning), "{}", run.stderr);
}

#[test]
fn a_recovery_that_goes_to_the_background_has_tested_nothing() {
    let dir = TestDir::new();
    let check = "./slots {pm} check";
    for recover in [
        format!("({check}; sleep 60) & exit 0"),
        format!("{check} || exit 1; (sleep 60; {check}) & exit 0"),
        // It may end before patience does.
        format!("{check} || exit 1; (sleep 0.9; {check}) & exit 0"),
        // It may end before the end of the first process is noticed.
        format!("{check} & exit 0"),
        format!("{check} || exit 1; (cat {{pm}} >/dev/null) & exit 0"),
    ] {
        let run = dir.check(&recover, &[], &["3"]);
        assert_eq!(run.status, Some(3), "{recover}: {}", run.stderr);
        let results = run_file(&dir.path("brownout.out"));
        assert_eq!(results["verdict"], "nothing-tested", "{results}");
        assert!(dir.read("brownout.out/junit.xml").contains("<error"));
    }
    let reason = "recovery leaves processes behind";
    let reasons = run_file(&dir.path("brownout.out"))["reasons"].to_string();
    assert!(reasons.contains(reason), "{reasons}");
    let sarif = dir.read("brownout.out/report.sarif");
    assert!(sarif.contains(reason), "{sarif}");
    // A helper that ends soon after is no reason.
    let recover = format!("true & {check}");
    let run = dir.check(&recover, &[], &["3"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
}

#[test]
fn the_users_file_stays_as_the_program_left_it() {
    if !private_mounts_are_possible() {
        return;
    }
    let dir = TestDir::new();
    dir.record(&[], &["3", "early"]);
    let before = fs::read(dir.path("pool")).unwrap();
    let modified = fs::metadata(dir.path("pool")).unwrap().modified().unwrap();
    let options = [
        "--recover",
        "sh -c 'cat pool; echo x > pool; echo y > other; exit 1'",
    ];
    let mut arguments = vec!["crash", "trace", "--recover-success", "0,1"];
    arguments.extend(options);
    let run = dir.brownout(&arguments);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(fs::read(dir.path("pool")).unwrap() == before);
    assert_eq!(
        fs::metadata(dir.path("pool")).unwrap().modified().unwrap(),
        modified
    );
    assert!(!dir.path("other").exists());
}

#[test]
fn a_recovery_that_is_killed_shows_where() {
    let dir = TestDir::new();
    let run = dir.check("./slots {pm} check abort", &[], &["3", "early"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let findings = dir.findings();
    assert_eq!(crash_rules(&findings), ["recovery-crashed"]);
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
fn a_recovery_that_does_not_end_is_distinguished_from_a_slow_one() {
    let dir = TestDir::new();
    let limit = ["--recover-time-limit", "300ms"];
    let run = dir.check("./slots {pm} check hang", &limit, &["1", "early"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let findings = dir.findings();
    assert_eq!(crash_rules(&findings), ["recovery-hung"]);
    assert!(functions(&findings[0], "recovery").contains(&"damaged"));
    let slow = "sh -c './slots {pm} check || { sleep 0.5; grep -q . {pm}; }'";
    let run = dir.check(slow, &limit, &["1", "early"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
}

#[test]
fn a_recovery_that_spins_is_a_hang_in_every_artefact() {
    let dir = TestDir::new();
    let run = dir.check("./slots {pm} check spin", &[], &["1", "early"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let found = dir.findings();
    assert_eq!(crash_rules(&found), ["recovery-hung"]);
    assert!(functions(&found[0], "recovery").contains(&"damaged"));
    let junit = dir.read("brownout.out/junit.xml");
    assert!(junit.contains("type=\"recovery-hung\""), "{junit}");
    let sarif = dir.read("brownout.out/report.sarif");
    assert!(sarif.contains("\"ruleId\":\"recovery-hung\""), "{sarif}");
}

#[test]
fn a_recovery_that_fails_without_a_crash_is_not_the_crashs_fault() {
    let dir = TestDir::new();
    let run = dir.check("sh -c 'echo no pool for me >&2; exit 3'", &[], &["2"]);
    assert_eq!(run.status, Some(4), "{}", run.stderr);
    assert!(run.stderr.contains("without any crash"), "{}", run.stderr);
    assert!(run.stderr.contains("no pool for me"), "{}", run.stderr);
    let run = dir.check("./no-such-program {pm}", &[], &["2"]);
    assert!(matches!(run.status, Some(2 | 4)), "{}", run.stderr);
    assert!(run.stderr.contains("no-such-program"), "{}", run.stderr);
}

#[test]
fn replay_shows_a_crash_again() {
    let dir = TestDir::new();
    dir.check("./slots {pm} check", &[], &["3", "early"]);
    let finding = &dir.findings()[0];
    let id = finding["id"].as_str().unwrap();
    let again = dir.brownout(&["replay", "brownout.out", &id[..6]]);
    assert_eq!(again.status, Some(1), "{}", again.stderr);
    assert!(
        again.stdout.contains("slot 0 is damaged"),
        "{}",
        again.stdout
    );
    let token = finding["replay"].as_str().unwrap();
    let elsewhere = dir.brownout(&["replay", "brownout.out/trace", token]);
    assert_eq!(elsewhere.status, Some(1), "{}", elsewhere.stderr);

    let kept = dir.brownout(&["replay", "brownout.out", id, "--keep", "image"]);
    assert_eq!(kept.status, Some(0), "{}", kept.stderr);
    let image = fs::read(dir.path("image")).unwrap();
    assert_eq!((image.len(), image[0]), (65536, 1), "one slot counts");
    assert!(image[1..].iter().all(|&byte| byte == 0), "none is written");
    let twice = dir.brownout(&["replay", "brownout.out", id, "--keep", "image"]);
    assert_eq!(twice.status, Some(2), "nothing is overwritten");

    let unknown = dir.brownout(&["replay", "brownout.out", "zzz"]);
    assert_eq!(unknown.status, Some(2));
    assert!(unknown.stderr.contains("zzz"), "{}", unknown.stderr);
    let cut = dir.brownout(&["replay", "brownout.out/trace", &token[..20]]);
    assert_eq!(cut.status, Some(2), "{}", cut.stderr);
}

#[test]
fn replay_hands_over_to_gdb() {
    let dir = TestDir::new();
    dir.check("./slots {pm} check abort", &[], &["3", "early"]);
    let id = dir.findings()[0]["id"].as_str().unwrap().to_owned();
    let run = dir.brownout(&["replay", "brownout.out", &id, "--gdb"]);
    assert!(
        run.stdout.contains("SIGABRT"),
        "{}{}",
        run.stdout,
        run.stderr
    );
}

#[test]
fn a_crash_before_an_exit_is_shown_at_the_last_store_before_it() {
    let dir = TestDir::with("crash/child.c", &["-g"]);
    let run = dir.brownout(&[
        "check",
        "--recover",
        "./child {pm} check",
        "--",
        "./child",
        "pool",
    ]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(!run.stderr.contains("unknown location"), "{}", run.stderr);
    let findings = dir.findings();
    let failed = findings
        .iter()
        .find(|finding| finding["rule"] == "recovery-failed");
    let failed = failed.unwrap_or_else(|| panic!("{}", run.stderr));
    let message = failed["message"].as_str().unwrap();
    let expected = "after power is lost before the exit of the process, after this store";
    assert!(message.contains(expected), "{message}");
    let innermost = functions(failed, "failure point").first().copied();
    assert_eq!(innermost, Some("leave_mark"));
    for name in ["junit.xml", "report.sarif"] {
        let text = dir.read(&format!("brownout.out/{name}"));
        assert!(text.contains("leave_mark"), "{name}: {text}");
    }
}
