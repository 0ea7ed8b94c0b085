//! Results that keep those of an earlier analysis: nothing that was found is lost, and nothing is kept of another test.

use std::fs;

use crate::confirmed::{List, RECOVER};
use crate::{TestDir, run_file};

const LINT: [&str; 4] = ["lint", "brownout.out", "--out", "brownout.out"];

#[test]
fn lint_keeps_what_crash_testing_has_confirmed() {
    // Findings of a rule that is pedantic, of one that warns, and several at one line.
    for how in ["one", "never", "after"] {
        let list = List::new();
        let run = list.check(how, RECOVER, &[]);
        assert_eq!(run.status, Some(1), "{how}: {}", run.stderr);
        let (before, found) = (list.lint(), list.0.findings());
        assert!(before.iter().any(|one| one.2 == Some(true)), "{before:?}");
        // Once more, from the results of lint.
        for _ in 0..2 {
            let run = list.0.brownout(&LINT);
            assert_eq!(run.status, Some(1), "{how}: {}", run.stderr);
            assert_eq!(list.lint(), before, "{how}");
        }
        let results = run_file(&list.0.path("brownout.out"));
        assert_eq!(results["verdict"], "findings", "{results}");
        assert_eq!(results["crash"]["complete"], true, "{results}");
        let junit = list.0.read("brownout.out/junit.xml");
        assert!(junit.contains("<failure"), "{junit}");
        let sarif = list.0.read("brownout.out/report.sarif");
        assert!(sarif.contains("\"confirmed\":true"), "{sarif}");
        let confirmed = |found: &[serde_json::Value]| {
            let mut found = found.iter();
            let confirmed = found.find(|finding| finding["confirmed"] == true);
            let confirmed = confirmed.unwrap();
            let proof = &confirmed["evidence"]["details"]["confirmed"];
            (
                confirmed["id"].clone(),
                proof.clone(),
                confirmed["replay"].clone(),
            )
        };
        let kept = confirmed(&list.0.findings());
        assert_eq!(kept, confirmed(&found), "{how}");
        let replayed = list
            .0
            .brownout(&["replay", "brownout.out", kept.0.as_str().unwrap()]);
        assert_eq!(replayed.status, Some(1), "{how}: {}", replayed.stderr);
    }
}

#[test]
fn a_rule_that_is_turned_off_is_not_kept() {
    let list = List::new();
    list.check("one", RECOVER, &[]);
    let off = "[rules]\nfence-orders-many = 'off'\n";
    fs::write(list.0.path("brownout.toml"), off).unwrap();
    let run = list.0.brownout(&LINT);
    assert!(list.lint().is_empty(), "{}", run.stderr);
    // What crash testing has found itself stays.
    let status = i32::from(!list.0.findings().is_empty());
    assert_eq!(run.status, Some(status), "{}", run.stderr);
}

#[test]
fn what_another_crash_test_has_confirmed_is_forgotten() {
    let warning = ("transient-data".to_owned(), "warning".to_owned(), None);
    let prefix = ["--recover", RECOVER, "--strategy", "prefix"];
    for (options, status) in [(&["--recover", "false"][..], 4), (&prefix, 1)] {
        let list = List::new();
        let run = list.check("never", RECOVER, &[]);
        assert_eq!(run.status, Some(1), "{}", run.stderr);
        let crash = [&["crash", "brownout.out"], options].concat();
        let run = list.0.brownout(&crash);
        // Whatever it shows, a finding that it does not try is not confirmed.
        assert!(matches!(run.status, Some(0 | 1 | 4)), "{}", run.stderr);
        assert_eq!(run.status == Some(4), status == 4, "{}", run.stderr);
        assert_eq!(list.lint(), std::slice::from_ref(&warning), "{options:?}");
        let found = list.0.findings();
        let replay = found[0]["replay"].as_str().unwrap();
        assert!(replay.starts_with("event:"), "{found:?}");
    }
    // A pedantic rule was shown only because its finding was confirmed.
    let list = List::new();
    assert_eq!(list.check("one", RECOVER, &[]).status, Some(1));
    let run = list
        .0
        .brownout(&["crash", "brownout.out", "--recover", "false"]);
    assert_eq!(run.status, Some(4), "{}", run.stderr);
    assert!(list.lint().is_empty());
}

#[test]
fn findings_that_are_missing_are_noticed() {
    let dir = TestDir::new();
    let run = dir.check("./slots {pm} check", &[], &["3", "early"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let whole = dir.read("brownout.out/findings.jsonl");
    let results = run_file(&dir.path("brownout.out"));
    assert_eq!(results["findings"], whole.lines().count());
    for damaged in [String::new(), whole.repeat(2)] {
        fs::write(dir.path("brownout.out/findings.jsonl"), &damaged).unwrap();
        for command in [
            &["report", "brownout.out"][..],
            &["report", "brownout.out", "--junit", "new.xml"],
            &["merge", "brownout.out", "--out", "merged"],
            &["crash", "brownout.out", "--recover", "./slots {pm} check"],
            &LINT,
        ] {
            let run = dir.brownout(command);
            assert_eq!(run.status, Some(2), "{command:?}: {}", run.stderr);
            let counted = run.stderr.contains("run.json says");
            assert!(counted, "{command:?}: {}", run.stderr);
        }
        assert!(!dir.path("new.xml").exists());
        assert_ne!(run_file(&dir.path("brownout.out"))["exit_code"], 0);
    }
    // It is replaced as a whole.
    let run = dir.check("./slots {pm} check", &[], &["3"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let reported = dir.brownout(&["report", "brownout.out"]);
    assert_eq!(reported.status, Some(0), "{}", reported.stderr);
}
