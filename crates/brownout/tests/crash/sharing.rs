//! Work in parts, and work that goes on later.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::{TestDir, crashes, findings, run_file};

#[test]
fn parts_joined_are_the_whole() {
    let dir = TestDir::new();
    dir.record(&[], &["30", "early"]);
    let whole = dir.crash(&["--occurrences", "8", "--out", "whole"]);
    assert_eq!(whole.status, Some(1), "{}", whole.stderr);
    for part in ["1/3", "2/3", "3/3"] {
        let out = format!("part{}", &part[..1]);
        let run = dir.crash(&["--occurrences", "8", "--shard", part, "--out", &out]);
        assert!(matches!(run.status, Some(0 | 1)), "{}", run.stderr);
    }
    let merged = dir.brownout(&["merge", "part1", "part2", "part3", "--out", "merged"]);
    assert_eq!(merged.status, Some(1), "{}", merged.stderr);
    assert!(!merged.stderr.contains("missing"), "{}", merged.stderr);
    let whole = findings(&dir.path("whole"));
    let joined = findings(&dir.path("merged"));
    let sum = |all: &[serde_json::Value]| -> u64 { crashes(all).iter().map(|found| found.1).sum() };
    assert!(sum(&whole) > 0);
    assert_eq!(sum(&whole), sum(&joined));
    let id = joined[0]["id"].as_str().unwrap();
    let replayed = dir.brownout(&["replay", "merged", id]);
    assert_eq!(replayed.status, Some(1), "{}", replayed.stderr);

    let run = run_file(&dir.path("merged"));
    assert_eq!(run["crash"]["complete"], true, "{run}");
    assert!(run["files"][0]["stores"].as_u64().unwrap() > 0, "{run}");
    let some = dir.brownout(&["merge", "part1", "part3", "--out", "some"]);
    assert!(
        some.stderr.contains("part 2/3 is missing"),
        "{}",
        some.stderr
    );
    assert_eq!(run_file(&dir.path("some"))["crash"]["complete"], false);
    let one = dir.brownout(&["merge", "part1", "--out", "one"]);
    assert!(
        one.stderr.contains("parts 2/3, 3/3 are missing"),
        "{}",
        one.stderr
    );
    // All crash points were tried, but the strategy could have proposed more.
    let journal = dir.path("part2/crash.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let lines = text.lines().filter(|line| !line.contains("\"end\""));
    fs::write(&journal, lines.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    let cut = dir.brownout(&["merge", "part1", "part2", "part3", "--out", "cut"]);
    assert!(
        cut.stderr.contains("a part is incomplete"),
        "{}",
        cut.stderr
    );
    assert_eq!(run_file(&dir.path("cut"))["crash"]["complete"], false);
    let other = dir.crash(&["--occurrences", "7", "--shard", "2/3", "--out", "other"]);
    assert!(other.status.is_some());
    let mixed = dir.brownout(&["merge", "part1", "other", "--out", "mixed"]);
    assert_eq!(mixed.status, Some(2));
    assert!(mixed.stderr.contains("other options"), "{}", mixed.stderr);
}

#[test]
fn too_few_parts_are_no_pass() {
    let dir = TestDir::new();
    dir.record(&[], &["3"]);
    // More parts than crash images: some have nothing to test.
    let parts: Vec<String> = (1..=40).map(|index| format!("{index}/40")).collect();
    let mut names: Vec<String> = Vec::new();
    let mut empty = None;
    for part in &parts {
        let out = format!("part{}", names.len());
        let run = dir.crash(&["--strategy", "prefix", "--shard", part, "--out", &out]);
        let results = run_file(&dir.path(&out));
        assert_eq!(results["crash"]["complete"], false, "{results}");
        assert_eq!(results["crash"]["part"], part.as_str(), "{results}");
        if results["crash"]["recoveries"] == 0 {
            assert_eq!(run.status, Some(3), "{}", run.stderr);
            let why = format!("none of the crash images belongs to part {part}");
            assert!(run.stderr.contains(&why), "{}", run.stderr);
            empty = Some(out.clone());
        } else {
            assert_eq!(run.status, Some(0), "{}", run.stderr);
        }
        names.push(out);
        // All are needed only for the whole.
        if empty.is_some() && names.len() >= 3 {
            break;
        }
    }
    let empty = empty.expect("a part has nothing to test");
    let junit = fs::read_to_string(dir.path(&empty).join("junit.xml")).unwrap();
    assert!(junit.contains("<error"), "{junit}");

    let mut merge = vec!["merge"];
    merge.extend(names.iter().map(String::as_str));
    merge.extend(["--out", "merged"]);
    let merged = dir.brownout(&merge);
    assert_eq!(merged.status, Some(3), "{}", merged.stderr);
    let run = run_file(&dir.path("merged"));
    assert_eq!(run["crash"]["complete"], false, "{run}");
    assert_eq!(run["exit_code"], 3, "{run}");
    assert!(run["reasons"].to_string().contains("are missing"), "{run}");
    let junit = fs::read_to_string(dir.path("merged/junit.xml")).unwrap();
    assert!(junit.contains("<error"), "{junit}");
}

#[test]
fn what_the_rules_found_is_in_the_whole_too() {
    let dir = TestDir::new();
    let suppressions =
        "[[suppression]]\nrule = \"flush-covers-many\"\nreason = \"two words of one slot\"\n";
    fs::write(dir.path("suppressions.toml"), suppressions).unwrap();
    let suppressed = ["--suppressions", "suppressions.toml"];
    let program = ["--out", "part1", "--", "./slots", "pool", "put", "30"];
    let checked = dir.brownout(&[&["check", "--pedantic"], &suppressed[..], &program].concat());
    assert_eq!(checked.status, Some(0), "{}", checked.stderr);
    let trace = "part1/trace";
    for part in ["1/2", "2/2"] {
        let out = format!("part{}", &part[..1]);
        let recovery = ["crash", trace, "--recover", "./slots {pm} check"];
        let options = ["--shard", part, "--out", &out];
        let run = dir.brownout(&[&recovery[..], &suppressed, &options].concat());
        assert_eq!(run.status, Some(0), "{}", run.stderr);
    }
    let merge = ["merge", "part1", "part2", "--out", "merged"];
    let merged = dir.brownout(&[&merge[..], &suppressed].concat());
    assert_eq!(merged.status, Some(0), "{}", merged.stderr);
    let report = dir.brownout(&["report", "merged", "--suppressed"]);
    assert!(
        report.stdout.contains("two words of one slot"),
        "{}",
        report.stdout
    );
}

#[test]
fn a_run_that_was_cut_off_goes_on() {
    let dir = TestDir::new();
    dir.record(&[], &["30", "early"]);
    let options = ["--occurrences", "8", "--no-narrowing"];
    dir.crash(&options);
    let whole = crashes(&dir.findings())[0].1;
    let journal = dir.path("brownout.out/crash.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // Everything before the fifth crash point, and a part of that.
    let mut trials = (0..lines.len()).filter(|&line| lines[line].contains("\"verdict\":"));
    let fifth = trials.nth(4).unwrap();
    let kept = lines[..fifth].join("\n") + "\n" + &lines[fifth][..20];
    fs::write(&journal, kept).unwrap();
    let mut resumed = options.to_vec();
    resumed.push("--resume");
    let run = dir.crash(&resumed);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(
        run.stderr.contains("4 crash points tried before"),
        "{}",
        run.stderr
    );
    assert_eq!(crashes(&dir.findings())[0].1, whole);
    let again = fs::read_to_string(&journal).unwrap();
    assert_eq!(again.lines().count(), lines.len());

    let run = dir.crash(&["--occurrences", "9", "--resume"]);
    assert_eq!(run.status, Some(2));
    assert!(run.stderr.contains("other options"), "{}", run.stderr);
    assert_eq!(
        fs::read_to_string(&journal).unwrap(),
        again,
        "nothing is lost"
    );
}

/// What a test can go on from: the findings, the trace and the journal in `brownout.out`.
fn results(dir: &TestDir) -> [Vec<u8>; 3] {
    ["findings.jsonl", "trace", "crash.jsonl"]
        .map(|name| fs::read(dir.path("brownout.out").join(name)).unwrap())
}

/// Asserts that the results do not pass for those of a run that was refused.
fn assert_refused(dir: &TestDir, reason: &str) {
    let run = run_file(&dir.path("brownout.out"));
    assert_eq!(run["verdict"], "error", "{run}");
    let reasons = run["reasons"].to_string();
    assert!(reasons.contains(reason), "{reasons}");
    assert!(reasons.contains("those of an earlier run"), "{reasons}");
}

#[test]
fn options_that_are_refused_lose_no_results() {
    let dir = TestDir::new();
    let recover = "./slots {pm} check";
    let run = dir.check(recover, &["--no-narrowing"], &["3", "early"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let before = results(&dir);
    let other = dir.check(
        recover,
        &["--resume", "--occurrences", "2"],
        &["3", "early"],
    );
    assert_eq!(other.status, Some(2), "{}", other.stderr);
    assert!(other.stderr.contains("other options"), "{}", other.stderr);
    assert!(results(&dir) == before, "a check has changed the results");
    assert_refused(&dir, "other options");
    let crash = ["crash", "brownout.out", "--recover", recover];
    let filtered = dir.brownout(&[&crash[..], &["--in-function", "typo"]].concat());
    assert_eq!(filtered.status, Some(2), "{}", filtered.stderr);
    assert!(filtered.stderr.contains("typo"), "{}", filtered.stderr);
    assert!(
        results(&dir) == before,
        "a crash test has changed the results"
    );
    assert_refused(&dir, "typo");
    let resumed = dir.check(recover, &["--resume", "--no-narrowing"], &["3", "early"]);
    assert_eq!(resumed.status, Some(1), "{}", resumed.stderr);
    assert_eq!(run_file(&dir.path("brownout.out"))["verdict"], "findings");
}

#[test]
fn a_program_that_was_built_again_is_not_resumed() {
    let dir = TestDir::new();
    let check = |options: &[&str]| dir.check("./slots {pm} check", options, &["3"]);
    let run = check(&[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let resumed = check(&["--resume"]);
    assert_eq!(resumed.status, Some(0), "the same: {}", resumed.stderr);
    let before = results(&dir);
    dir.compile("crash/slots.c", &["-g", "-O0"]);
    let changed = check(&["--resume"]);
    assert_eq!(changed.status, Some(2), "{}", changed.stderr);
    let why = "slots` has changed since it was recorded; run without --resume";
    assert!(changed.stderr.contains(why), "{}", changed.stderr);
    assert!(results(&dir) == before, "the earlier results have changed");
    assert_refused(&dir, "has changed since it was recorded");
}

#[test]
fn findings_of_other_analyses_of_the_trace_stay() {
    let dir = TestDir::new();
    let run = dir.check("./slots {pm} check", &["--no-narrowing"], &["3", "early"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let before = dir.findings();
    let recover = [
        "crash",
        "brownout.out/trace",
        "--recover",
        "./slots {pm} check abort",
    ];
    let run = dir.brownout(&recover);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let after = dir.findings();
    assert_eq!(crashes(&after)[0].0, "recovery-crashed");
    let others = |all: &[serde_json::Value]| all.len() - crashes(all).len();
    assert_eq!(others(&before), others(&after));
}

#[test]
fn a_project_can_keep_its_options_in_a_file() {
    let dir = TestDir::new();
    let options = "[crash]\nrecover = './slots {pm} check'\noccurrences = 3\n\n\
                   [preset.quick.crash]\noccurrences = 1\n";
    fs::write(dir.path("brownout.toml"), options).unwrap();
    let check = |options: &[&str]| {
        let _ = fs::remove_file(dir.path("pool"));
        let mut arguments = vec!["check"];
        arguments.extend(options);
        arguments.extend(["--", "./slots", "pool", "put", "9", "early"]);
        let run = dir.brownout(&arguments);
        assert_eq!(run.status, Some(1), "{}", run.stderr);
        crashes(&dir.findings())[0].1
    };
    assert_eq!(check(&[]), 3);
    assert_eq!(check(&["--preset", "quick"]), 1);
    assert_eq!(check(&["--occurrences", "2"]), 2);
    for (wrong, message) in [
        ("[crash]\nrecovery = 'x'\n", "recovery"),
        ("[crash]\nrecover-time-limit = 'soon'\n", "time"),
        ("[crash]\njobs = 0\n", "jobs"),
    ] {
        fs::write(dir.path("brownout.toml"), wrong).unwrap();
        let run = dir.brownout(&["check", "--", "./slots", "pool", "put", "1"]);
        assert_eq!(run.status, Some(2), "{wrong}: {}", run.stderr);
        assert!(run.stderr.contains(message), "{wrong}: {}", run.stderr);
    }
}

#[test]
fn a_test_is_not_resumed_with_another_build_of_a_library_of_the_recovery_program() {
    let dir = TestDir::new();
    dir.record(&[], &["1", "2"]);
    let cc = |arguments: &[&str]| {
        let mut command = Command::new("cc");
        let compiled = command.args(arguments).current_dir(dir.directory.path());
        assert!(compiled.status().unwrap().success());
    };
    let library = |content: &str| {
        fs::write(dir.path("check.c"), content).unwrap();
        cc(&["-shared", "-fPIC", "-o", "libcheck.so", "check.c"]);
    };
    library("#include <stdio.h>\nint check(void) { return getc(fopen(\"pool\", \"r\")) < 0; }");
    fs::write(
        dir.path("main.c"),
        "int check(void);\nint main(void) { return check(); }",
    )
    .unwrap();
    cc(&[
        "-o",
        "verify",
        "main.c",
        "-L.",
        "-lcheck",
        "-Wl,-rpath,$ORIGIN",
    ]);
    let crash = ["crash", "trace", "--recover", "./verify"];
    let run = dir.brownout(&crash);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let resumed = dir.brownout(&[&crash[..], &["--resume"]].concat());
    assert_eq!(resumed.status, Some(0), "{}", resumed.stderr);
    library("#include <stdio.h>\nint check(void) { return getc(fopen(\"pool\", \"r\")) < -1; }");
    let resumed = dir.brownout(&[&crash[..], &["--resume"]].concat());
    assert_eq!(resumed.status, Some(2), "{}", resumed.stderr);
    let why = "another build of the recovery program";
    assert!(resumed.stderr.contains(why), "{}", resumed.stderr);
}

#[test]
fn a_test_is_not_resumed_with_another_build_of_the_recovery_program() {
    let dir = TestDir::new();
    dir.record(&[], &["1", "2"]);
    let script = |content: &str| {
        fs::write(dir.path("check.sh"), content).unwrap();
        fs::write(dir.path("check"), content).unwrap();
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(dir.path("check"), executable).unwrap();
    };
    for recover in ["sh check.sh", "sh -c './check {pm}'"] {
        let crash = ["crash", "trace", "--recover", recover];
        script("#!/bin/sh\ncat pool");
        let run = dir.brownout(&crash);
        assert_eq!(run.status, Some(0), "{recover}: {}", run.stderr);
        let resumed = dir.brownout(&[&crash[..], &["--resume"]].concat());
        assert_eq!(resumed.status, Some(0), "{recover}: {}", resumed.stderr);
        script("#!/bin/sh\ncat pool # another");
        let resumed = dir.brownout(&[&crash[..], &["--resume"]].concat());
        assert_eq!(resumed.status, Some(2), "{recover}: {}", resumed.stderr);
        let why = "another build of the recovery program";
        assert!(resumed.stderr.contains(why), "{}", resumed.stderr);
    }
}
