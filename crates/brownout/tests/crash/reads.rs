//! What recovery opens and reads: a recovery that does not open the files has tested nothing, and findings are ranked by what it reads.

use std::fs;

use serde_json::Value;

use crate::test_dir::findings;
use crate::{Completed, TestDir, run_file};

/// A directory with `pools`, a program with two persistent files.
struct Pools(TestDir);

impl Pools {
    fn new() -> Self {
        Self(TestDir::with("crash/pools.c", &["-g"]))
    }

    fn check(&self, recover: &str, how: &str, options: &[&str]) -> Completed {
        for name in ["first", "second"] {
            // There is none the first time.
            let _ = fs::remove_file(self.0.path(name));
        }
        let mut arguments = vec!["check", "--recover", recover];
        arguments.extend(options);
        arguments.extend(["--", "./pools", "first", "second", how]);
        self.0.brownout(&arguments)
    }

    fn run_file(&self) -> Value {
        run_file(&self.0.path("brownout.out"))
    }

    /// The results for machines and people, as texts.
    fn results(&self) -> [String; 3] {
        ["junit.xml", "report.sarif", "report.html"]
            .map(|name| self.0.read(&format!("brownout.out/{name}")))
    }
}

/// The name of each persistent file, whether it was opened, and how many of its bytes were read.
fn reads(run: &Value) -> Vec<(&str, bool, u64)> {
    let files = run["recovery_reads"]["files"].as_array().unwrap();
    let file = |file: &'_ Value| (file["opened"].as_bool(), file["bytes_read"].as_u64());
    files
        .iter()
        .map(|known| {
            let path = known["path"].as_str().unwrap();
            let (opened, bytes) = file(known);
            (
                path.rsplit('/').next().unwrap(),
                opened.unwrap(),
                bytes.unwrap(),
            )
        })
        .collect()
}

#[test]
fn a_recovery_that_opens_no_persistent_file_has_tested_nothing() {
    let pools = Pools::new();
    for recover in [
        "true",
        "./pools typo typo check",
        "sh -c './pools typo typo check; exit 0'",
    ] {
        let run = pools.check(recover, "put", &[]);
        assert_eq!(run.status, Some(3), "{recover}: {}", run.stderr);
        let said = "crash testing tested nothing: recovery never opened";
        assert!(run.stderr.contains(said), "{}", run.stderr);
        assert!(
            !run.stderr.contains("crashes tested at"),
            "one statement: {}",
            run.stderr
        );
        let result = pools.run_file();
        assert_eq!(result["verdict"], "nothing-tested");
        assert_eq!(result["exit_code"], 3);
        let reasons = result["reasons"].to_string();
        assert!(
            reasons.contains(said) && reasons.contains("/first"),
            "{reasons}"
        );
        assert_eq!(reads(&result), [("first", false, 0), ("second", false, 0)]);
        let [junit, sarif, html] = pools.results();
        assert!(junit.contains("<error") && junit.contains(said), "{junit}");
        assert!(
            sarif.contains("\"executionSuccessful\":false") && sarif.contains(said),
            "{sarif}"
        );
        assert!(html.contains(said));
    }
    let report = pools.0.brownout(&["report", "brownout.out"]);
    assert_eq!(report.status, Some(3), "{}", report.stderr);
}

#[test]
fn a_file_that_recovery_does_not_open_is_named() {
    let pools = Pools::new();
    let run = pools.check("./pools first - check", "put", &[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(
        run.stderr.contains("recovery never opened"),
        "{}",
        run.stderr
    );
    let result = pools.run_file();
    assert_eq!(reads(&result), [("first", true, 16), ("second", false, 0)]);
    let unopened = result["left_out"]["unopened"].as_array().unwrap();
    assert_eq!(unopened.len(), 1);
    assert!(unopened[0].as_str().unwrap().ends_with("/second"));
    for text in pools.results() {
        assert!(text.contains("recovery never opened"), "{text}");
    }
}

#[test]
fn programs_that_a_script_starts_are_observed() {
    let pools = Pools::new();
    fs::write(
        pools.0.path("recover.sh"),
        "cat \"$1\" | wc -c && dd if=\"$2\" of=/dev/null bs=8 count=1\n",
    )
    .unwrap();
    for (recover, expected) in [
        (
            "sh -c './pools first second check || exit 1'",
            [("first", true, 16), ("second", true, 8)],
        ),
        (
            "sh recover.sh {pm} {pm:2}",
            [("first", true, 4096), ("second", true, 8)],
        ),
    ] {
        let run = pools.check(recover, "put", &[]);
        assert_eq!(run.status, Some(0), "{recover}: {}", run.stderr);
        assert!(!run.stderr.contains("never opened"), "{}", run.stderr);
        let result = pools.run_file();
        assert_eq!(reads(&result), expected, "{recover}");
        assert_eq!(result.get("left_out"), None);
    }
}

#[test]
fn a_recovery_that_only_looks_files_up_has_tested_nothing() {
    let pools = Pools::new();
    for recover in [
        "test -e first -a -e second",
        "sh -c 'exec 3<first 4<second; exit 0'",
        "dd if=first of=/dev/null count=0",
    ] {
        let run = pools.check(recover, "put", &[]);
        assert_eq!(run.status, Some(3), "{recover}: {}", run.stderr);
        let said = "crash testing tested nothing: recovery reads no byte of";
        assert!(run.stderr.contains(said), "{recover}: {}", run.stderr);
        assert!(!run.stderr.contains("crashes tested at"), "{}", run.stderr);
        let result = pools.run_file();
        assert_eq!(result["verdict"], "nothing-tested");
        assert_eq!(result["exit_code"], 3);
        assert_eq!(result["reason_kinds"], serde_json::json!(["nothing-read"]));
        assert!(reads(&result).iter().all(|&(_, _, bytes)| bytes == 0));
        let [junit, sarif, html] = pools.results();
        assert!(junit.contains("<error") && junit.contains(said), "{junit}");
        assert!(
            sarif.contains("\"executionSuccessful\":false") && sarif.contains(said),
            "{sarif}"
        );
        assert!(html.contains(said));
    }
    let linted = pools
        .0
        .brownout(&["lint", "brownout.out", "--out", "brownout.out"]);
    assert_eq!(linted.status, Some(3), "{}", linted.stderr);
    let merged = pools
        .0
        .brownout(&["merge", "brownout.out", "--out", "merged"]);
    assert_eq!(merged.status, Some(3), "{}", merged.stderr);
    let result = run_file(&pools.0.path("merged"));
    assert_eq!(result["reason_kinds"], serde_json::json!(["nothing-read"]));
}

#[test]
fn a_recovery_that_reads_nothing_of_what_crashes_change_is_named() {
    let dir = TestDir::new();
    let said = "recovery reads none of the bytes that the tested crashes change";
    // The slots are in the first page, and a hole follows.
    let run = dir.check(
        "sh -c 'dd if={pm} of=/dev/null bs=1 skip=4000 count=8'",
        &[],
        &["3"],
    );
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains(said), "{}", run.stderr);
    let gaps = run_file(&dir.path("brownout.out"))["gaps"].to_string();
    assert!(gaps.contains(said), "{gaps}");
    for name in ["report.sarif", "report.html"] {
        let text = dir.read(&format!("brownout.out/{name}"));
        assert!(text.contains(said), "{name}: {text}");
    }
    let run = dir.check("./slots {pm} check", &[], &["3"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(!run.stderr.contains(said), "{}", run.stderr);
}

#[test]
fn a_recovery_that_accepts_any_content_is_named() {
    let pools = Pools::new();
    let said = "recovery also passes on 4 altered copies of the files";
    // A program that shows what it finds.
    let run = pools.check("cat first second", "put", &[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains(said), "{}", run.stderr);
    let gaps = pools.run_file()["gaps"].to_string();
    assert!(gaps.contains(said), "{gaps}");
    let [junit, sarif, html] = pools.results();
    assert!(sarif.contains(said) && html.contains(said), "{sarif}");
    assert!(junit.contains(said), "{junit}");
    // One that checks what it finds.
    let run = pools.check("./pools first second check", "put", &[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(!run.stderr.contains("altered"), "{}", run.stderr);
}

#[test]
fn a_recovery_that_accepts_any_content_makes_no_bug_a_warning() {
    let pools = Pools::new();
    let level = "[rules]\nmissing-flush = 'unless-passed'\n";
    fs::write(pools.0.path("brownout.toml"), level).unwrap();
    let run = pools.check("cat first second", "forget", &[]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("altered copies"), "{}", run.stderr);
    let not_acquitted = |out: &str| {
        let found = findings(&pools.0.path(out));
        let mut flushes = found.iter().filter(|one| one["rule"] == "missing-flush");
        assert!(flushes.clone().count() > 0, "{found:?}");
        assert!(flushes.all(|one| one["confirmed"] == false && one["severity"] == "bug"));
    };
    not_acquitted("brownout.out");
    assert!(!pools.run_file()["recovery_reads"]["doubts"].is_null());
    let merge = ["merge", "brownout.out", "--out", "merged"];
    let merged = pools.0.brownout(&merge);
    assert_eq!(merged.status, Some(1), "{}", merged.stderr);
    not_acquitted("merged");
}

#[test]
fn findings_are_ranked_by_what_recovery_reads() {
    let pools = Pools::new();
    let run = pools.check("./pools first second check", "forget", &["--verbose"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let findings = pools.0.findings();
    let found = findings.iter().map(|finding| {
        let text = |name: &str| finding[name].as_str().unwrap();
        let line = finding["stacks"][0]["frames"][0]["line"].as_u64().unwrap();
        let source = pools.0.read("pools.c");
        let stored = source.lines().nth(line as usize - 1).unwrap().trim();
        let read = finding["read_by_recovery"].as_bool().unwrap();
        (text("rule").to_owned(), stored.to_owned(), read)
    });
    let expected = [
        ("missing-flush", "first->value = 2;", true),
        ("missing-flush", "first->lock = 0;", false),
        ("transient-data", "first->hits = 5;", true),
        ("transient-data", "first->misses = 4;", false),
    ];
    let expected = expected.map(|(rule, stored, read)| (rule.to_owned(), stored.to_owned(), read));
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert!(
        run.stderr.contains("recovery reads these bytes")
            && run.stderr.contains("recovery never reads these bytes"),
        "{}",
        run.stderr
    );

    // With a recovery that reads nothing, nothing is known, and no finding is harmless.
    let run = pools.check("true", "forget", &[]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("tested nothing"), "{}", run.stderr);
    for finding in pools.0.findings() {
        assert_eq!(finding.get("read_by_recovery"), None);
        assert_eq!(finding.get("confirmed"), None);
    }
}

#[test]
fn reads_that_are_not_known_change_no_verdict() {
    let pools = Pools::new();
    // The engine needs a larger file than this.
    let options = ["--file-size-limit", "1M"];
    let run = pools.check("./pools first - check", "put", &options);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let result = pools.run_file();
    assert!(result["recovery_reads"]["unknown"].is_string(), "{result}");
    assert_eq!(result.get("left_out"), None);
    let said = "whether recovery reads what the tested crashes change is not known";
    assert!(run.stderr.contains(said), "{}", run.stderr);
    assert!(result["gaps"].to_string().contains(said), "{result}");
    for text in pools.results() {
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn a_test_that_is_resumed_does_not_observe_recovery_again() {
    let pools = Pools::new();
    let run = pools.check("./pools first second check", "put", &[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let journal = pools.0.read("brownout.out/crash.jsonl");
    let changed: Vec<String> = journal
        .lines()
        .map(|line| match line.contains("recovery_reads") {
            true => r#"{"recovery_reads":{"unknown":"observed earlier"}}"#.to_owned(),
            false => line.to_owned(),
        })
        .collect();
    let changed = changed.join("\n") + "\n";
    assert_ne!(changed, journal);
    fs::write(pools.0.path("brownout.out/crash.jsonl"), changed).unwrap();
    let run = pools.check("./pools first second check", "put", &["--resume"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let reads = &pools.run_file()["recovery_reads"];
    assert_eq!(reads["unknown"], "observed earlier");
}

#[test]
fn parts_of_a_test_that_opened_no_file_do_not_pass_together() {
    let pools = Pools::new();
    let run = pools.check("true", "put", &[]);
    assert_eq!(run.status, Some(3), "{}", run.stderr);
    for part in ["1", "2"] {
        let shard = format!("{part}/2");
        let crash = ["crash", "brownout.out/trace", "--recover", "true"];
        let options = ["--shard", &shard, "--out", part];
        let run = pools.0.brownout(&[&crash[..], &options].concat());
        assert_eq!(run.status, Some(3), "{}", run.stderr);
    }
    let run = pools.0.brownout(&["merge", "1", "2", "--out", "whole"]);
    assert_eq!(run.status, Some(3), "{}", run.stderr);
    let result = run_file(&pools.0.path("whole"));
    assert!(
        result["reasons"].to_string().contains("never opened"),
        "{result}"
    );
    assert_eq!(reads(&result).len(), 2);
}
