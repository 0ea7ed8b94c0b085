//! The trace of a target that failed on its own says so to every command that analyses it.

use std::fs;

use crate::run_end::{assert_ends, run_file};
use crate::{TestDir, test_crashes};

const REASON: &str = "the program exited with status 7";

#[test]
fn every_analysis_of_the_run_repeats_that_the_target_failed() {
    let dir = TestDir::new();
    assert_eq!(dir.check(&[], &["fail"]).status, Some(4));
    for input in ["brownout.out", "brownout.out/trace"] {
        let run = dir.brownout(&["lint", input]);
        assert_eq!(run.status, Some(4), "{}", run.stderr);
        assert!(run.stderr.contains(REASON), "{}", run.stderr);
        assert!(!run.stdout.contains("nothing found"), "{}", run.stdout);
        let printed = dir.brownout(&["lint", input, "--format", "junit"]);
        assert!(printed.stdout.contains("<error"), "{}", printed.stdout);
        let run = dir.brownout(&["lint", input, "--out", "brownout.out"]);
        assert_ends(&dir, &run, 4, "target-failed", REASON);
        let run = dir.brownout(&["crash", input, "--recover", "true"]);
        assert_ends(&dir, &run, 4, "target-failed", REASON);
    }
    for part in ["1/2", "2/2"] {
        let out = format!("part{}", &part[..1]);
        let crash = [
            "crash",
            "brownout.out",
            "--recover",
            "true",
            "--shard",
            part,
        ];
        let run = dir.brownout(&[&crash[..], &["--out", &out]].concat());
        assert_eq!(run.status, Some(4), "{}", run.stderr);
    }
    let merged = dir.brownout(&["merge", "part1", "part2"]);
    assert_ends(&dir, &merged, 4, "target-failed", REASON);
}

#[test]
fn an_end_that_counts_as_success_counts_for_every_command() {
    let dir = TestDir::new();
    assert_eq!(dir.check(&[], &["fail"]).status, Some(4));
    let accepted = ["--target-success", "7"];
    let trace = "brownout.out/trace";
    let run = dir.brownout(&[&["lint", trace][..], &accepted].concat());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let crash = ["crash", "brownout.out", "--recover", "cat<pool"];
    let run = dir.brownout(&[&crash[..], &accepted].concat());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(run_file(&dir)["target_success"], serde_json::json!(["7"]));
    // The results remember it.
    for again in [&["lint", "brownout.out"][..], &crash] {
        let run = dir.brownout(again);
        assert_eq!(run.status, Some(0), "{again:?}: {}", run.stderr);
    }
    assert_eq!(dir.check(&accepted, &["fail"]).status, Some(0));
    let run = dir.brownout(&["lint", "brownout.out"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    // It is in all artefacts of the check.
    let results = run_file(&dir);
    assert_eq!(results["verdict"], "passed", "{results}");
    assert_eq!(results["target_success"], serde_json::json!(["7"]));
    let junit = dir.read("brownout.out/junit.xml");
    assert!(
        !junit.contains("<error") && !junit.contains("<failure"),
        "{junit}"
    );
    let sarif = dir.read("brownout.out/report.sarif");
    assert!(sarif.contains("\"executionSuccessful\":true"), "{sarif}");
    assert!(sarif.contains("\"exitCode\":0"), "{sarif}");
}

#[test]
fn the_command_that_continues_is_complete() {
    let dir = TestDir::new();
    let options = ["--recover", "cat<pool", "--out", "out-{pid}", "--loads"];
    let options = [&options[..], &["--confirm", "--schedule", "1"]].concat();
    let run = dir.check(&options, &["fail"]);
    assert_eq!(run.status, Some(4), "{}", run.stderr);
    let command = run
        .stderr
        .split('`')
        .find(|text| text.starts_with("brownout crash "));
    let command = command.unwrap_or_else(|| panic!("{}", run.stderr));
    assert!(!command.contains("{pid}"), "{command}");
    let words = command.split(' ').skip(1);
    let words: Vec<&str> = words.map(|word| word.trim_matches('\'')).collect();
    let out = words[1].strip_suffix("/trace").unwrap();
    assert!(dir.path(words[1]).is_file(), "{command}");
    let run = dir.brownout(&words);
    assert_eq!(run.status, Some(0), "{command}: {}", run.stderr);
    let results = dir.read(&format!("{out}/run.json"));
    assert!(results.contains("\"passed\""), "{results}");
}

#[test]
fn results_beside_the_trace_of_another_run_accept_no_end() {
    let dir = TestDir::new();
    let accepted = ["--target-success", "7"];
    assert_eq!(dir.check(&accepted, &["fail"]).status, Some(0));
    assert_eq!(dir.check(&["--out", "other"], &["fail"]).status, Some(4));
    fs::copy(dir.path("other/trace"), dir.path("brownout.out/another")).unwrap();
    for command in [
        &["lint", "brownout.out/another", "--out", "linted"][..],
        &test_crashes("brownout.out/another", "linted"),
    ] {
        let run = dir.brownout(command);
        assert_eq!(run.status, Some(4), "{command:?}: {}", run.stderr);
        assert!(run.stderr.contains(REASON), "{}", run.stderr);
        let results = dir.read("linted/run.json");
        assert!(results.contains("\"target-failed\""), "{results}");
        let junit = dir.read("linted/junit.xml");
        assert!(junit.contains("<error"), "{junit}");
    }
    let run = dir.brownout(&["lint", "brownout.out/trace"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
}
