//! Findings of lint that crash images confirm, or do not.

use std::fs;

use serde_json::Value;

use crate::{Completed, TestDir, crashes, findings};

/// A directory with `linked`, a list whose nodes are flushed in different ways.
pub struct List(pub TestDir);

impl List {
    pub fn new() -> Self {
        Self(TestDir::with("crash/linked.c", &["-g"]))
    }

    pub fn check(&self, how: &str, recover: &str, options: &[&str]) -> Completed {
        let _ = fs::remove_file(self.0.path("pool"));
        let mut arguments = vec!["check", "--recover", recover];
        arguments.extend(options);
        arguments.extend(["--", "./linked", "pool", "put", "4", how]);
        self.0.brownout(&arguments)
    }

    /// The findings of lint with their severity and whether they are confirmed.
    pub fn lint(&self) -> Vec<(String, String, Option<bool>)> {
        let found = self.0.findings();
        let of_lint = found
            .iter()
            .filter(|finding| !finding["rule"].as_str().unwrap().starts_with("recovery-"));
        let mut known: Vec<_> = of_lint
            .map(|finding| {
                let text = |name: &str| finding[name].as_str().unwrap().to_owned();
                let confirmed = finding.get("confirmed").and_then(Value::as_bool);
                (text("rule"), text("severity"), confirmed)
            })
            .collect();
        known.sort();
        known.dedup();
        known
    }

    fn result(&self, name: &str) -> String {
        fs::read_to_string(self.0.path("brownout.out").join(name)).unwrap()
    }
}

pub const RECOVER: &str = "./linked {pm} check";

#[test]
fn a_node_linked_before_it_is_flushed_is_a_confirmed_bug() {
    let list = List::new();
    let run = list.check("after", RECOVER, &[]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let found = list.0.findings();
    let delayed: Vec<&Value> = found
        .iter()
        .filter(|finding| finding["rule"] == "delayed-persist")
        .collect();
    assert!(!delayed.is_empty(), "{found:?}");
    let confirmed = delayed.iter().find(|finding| finding["confirmed"] == true);
    let confirmed = confirmed.expect("the node's value is needed");
    assert_eq!(confirmed["severity"], "bug");
    let details = &confirmed["evidence"]["details"];
    assert!(
        details["last output"].as_str().unwrap().contains("damaged"),
        "{details}"
    );
    // One cause, one finding.
    assert_eq!(crashes(&found), []);

    let run_file: Value = serde_json::from_str(&list.result("run.json")).unwrap();
    assert_eq!(run_file["verdict"], "findings");
    let suspects = &run_file["crash"]["suspects"];
    assert_eq!(suspects["tried"], suspects["of"], "{run_file}");
    assert!(run.stderr.contains(" suspect"), "{}", run.stderr);
    assert!(list.result("junit.xml").contains("<failure"));
    let sarif = list.result("report.sarif");
    assert!(sarif.contains("\"confirmed\":true"), "{sarif}");

    let id = confirmed["id"].as_str().unwrap();
    let replayed = list.0.brownout(&["replay", "brownout.out", id]);
    assert_eq!(replayed.status, Some(1), "{}", replayed.stderr);
    assert!(
        !replayed.stderr.contains("the result differs"),
        "{}",
        replayed.stderr
    );
    let reported = list.0.brownout(&["report", "brownout.out"]);
    assert_eq!(reported.status, Some(1), "{}", reported.stderr);
}

#[test]
fn a_node_flushed_before_it_is_linked_is_clean() {
    let list = List::new();
    let run = list.check("before", RECOVER, &["--pedantic"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let found = list.lint();
    assert!(found.iter().all(|one| one.2 != Some(true)), "{found:?}");
    assert_eq!(crashes(&list.0.findings()), []);
}

#[test]
fn a_node_that_is_never_flushed_is_confirmed_and_a_weak_recovery_only_shortens_it() {
    let list = List::new();
    let run = list.check("never", RECOVER, &[]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let transient = |confirmed| {
        let severity = if confirmed { "bug" } else { "warning" };
        let (rule, severity) = ("transient-data".to_owned(), severity.to_owned());
        (rule, severity, Some(confirmed))
    };
    assert_eq!(list.lint(), [transient(true)]);
    let confirmed = &list.0.findings()[0];
    let proof = confirmed["evidence"]["details"]["confirmed"].as_str();
    let proof = proof.unwrap_or_else(|| panic!("{confirmed}"));
    assert!(proof.contains("on the image of a crash that loses what is stored here, before a"));
    assert!(proof.contains("linked.c:"), "{proof}");
    let token = confirmed["replay"].as_str().unwrap();
    let junit = list.0.read("brownout.out/junit.xml");
    assert!(junit.contains(proof) && junit.contains(token), "{junit}");
    let sarif = list.0.read("brownout.out/report.sarif");
    let sarif: serde_json::Value = serde_json::from_str(&sarif).unwrap();
    let result = &sarif["runs"][0]["results"][0];
    let message = result["message"]["text"].as_str().unwrap();
    assert!(
        message.ends_with(&format!("; confirmed: {proof}")),
        "{message}"
    );
    assert_eq!(result["properties"]["replay"], token);

    // What another recovery has shown before does not count.
    let weak = "./linked {pm} check weak";
    let run = (list.0).brownout(&["crash", "brownout.out", "--recover", weak]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(list.lint(), [transient(false)]);
    let found = list.0.findings();
    assert!(!found[0].to_string().contains("damaged"), "{found:?}");

    let run = list.check("never", weak, &[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(list.lint(), [transient(false)]);
    assert!(run.stderr.contains("recovery passed on "), "{}", run.stderr);
}

#[test]
fn images_that_lack_files_confirm_nothing() {
    let list = List::new();
    let script = "./linked pool put 4 never; echo done > log";
    let target = ["--", "sh", "-c", script];
    let command = ["check", "--recover", RECOVER];
    let run = list.0.brownout(&[&command[..], &target].concat());
    assert_eq!(run.status, Some(3), "{}", run.stderr);
    assert!(
        run.stderr.contains("it confirms no finding"),
        "{}",
        run.stderr
    );
    let found = list.lint();
    assert!(
        found
            .iter()
            .all(|one| one.1 == "warning" && one.2.is_none()),
        "{found:?}"
    );
    let run_file: Value = serde_json::from_str(&list.result("run.json")).unwrap();
    assert_eq!(run_file["exit_code"], 3);
    assert!(list.result("junit.xml").contains("<error"));
}

#[test]
fn an_open_order_that_matters_is_shown_though_its_rule_is_pedantic() {
    let list = List::new();
    let run = list.check("one", RECOVER, &[]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let expected = ("fence-orders-many".to_owned(), "bug".to_owned(), Some(true));
    assert_eq!(list.lint(), [expected]);
    // If it is turned off, crash testing finds that the order is open.
    let off = "[rules]\nfence-orders-many = 'off'\n";
    fs::write(list.0.path("brownout.toml"), off).unwrap();
    let run = list.check("one", RECOVER, &[]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(list.lint().is_empty());
    let found = list.0.findings();
    assert_eq!(crashes(&found).len(), 1, "{found:?}");
}

#[test]
fn a_count_synced_before_its_record_is_a_confirmed_bug() {
    let dir = TestDir::with("crash/records.c", &["-g"]);
    let check = |how: &[&str]| {
        let _ = fs::remove_file(dir.path("pool"));
        let command = ["check", "--recover", "./records {pm} check", "--"];
        let target = ["./records", "pool", "put", "4"];
        dir.brownout(&[&command[..], &target, how].concat())
    };
    let run = check(&["early"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let found = dir.findings();
    let confirmed = found.iter().filter(|finding| finding["confirmed"] == true);
    assert_eq!(confirmed.count(), 1, "{found:?}");
    let run = check(&[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let found = dir.findings();
    assert!(found.iter().all(|finding| finding["confirmed"] != true));
}

#[test]
fn crash_tries_suspects_too_and_parts_of_it_merge() {
    let list = List::new();
    let record = [
        "record", "-q", "-o", "trace", "--", "./linked", "pool", "put", "4", "after",
    ];
    assert_eq!(list.0.brownout(&record).status, Some(0));
    let crash = |options: &[&str]| {
        let command = ["crash", "trace", "--recover", RECOVER];
        list.0.brownout(&[&command[..], options].concat())
    };
    let whole = crash(&["--out", "whole"]);
    assert_eq!(whole.status, Some(1), "{}", whole.stderr);
    // Each confirmed finding with the lines that are joined with it.
    let confirmed = |out: &str| -> Vec<(String, usize)> {
        let found = findings(&list.0.path(out));
        let confirmed = found.iter().filter(|finding| finding["confirmed"] == true);
        let confirmed = confirmed.map(|finding| {
            let joined = finding["evidence"]["joined"].as_array();
            (finding["id"].to_string(), joined.map_or(0, Vec::len))
        });
        confirmed.collect()
    };
    assert!(!confirmed("whole").is_empty());
    // What one part sees may need a comparison with an image of another.
    for count in [2, 5] {
        let parts: Vec<String> = (1..=count).map(|part| format!("part{part}")).collect();
        for (number, out) in (1..).zip(&parts) {
            let run = crash(&["--shard", &format!("{number}/{count}"), "--out", out]);
            assert!(matches!(run.status, Some(0 | 1)), "{}", run.stderr);
        }
        let mut merge = vec!["merge", "--out", "merged"];
        merge.extend(parts.iter().map(String::as_str));
        let merged = list.0.brownout(&merge);
        assert_eq!(merged.status, Some(1), "{}", merged.stderr);
        assert_eq!(confirmed("merged"), confirmed("whole"), "{count} parts");
    }
}
