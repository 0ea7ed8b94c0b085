//! Locks in persistent memory: whether it matters that they are not flushed depends on what recovery does with them.

use serde_json::Value;

use crate::{Completed, TestDir};

fn check(dir: &TestDir, recovery: &str, options: &[&str]) -> Completed {
    // There is none the first time.
    let _ = std::fs::remove_file(dir.path("pool"));
    let recover = format!("./buckets {{pm}} {recovery}");
    let mut arguments = vec!["check", "--recover", &recover];
    arguments.extend(options);
    arguments.extend(["--", "./buckets", "pool", "put"]);
    dir.brownout(&arguments)
}

/// The finding about the release of the lock.
fn release(dir: &TestDir) -> Value {
    let mut findings = dir.findings().into_iter();
    let found = findings.find(|finding| finding["rule"] == "missing-flush");
    found.expect("the release is not flushed")
}

/// The level of each result in the SARIF file.
fn sarif_levels(dir: &TestDir) -> Vec<String> {
    let sarif: Value = serde_json::from_str(&dir.read("brownout.out/report.sarif")).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let levels = results.iter().map(|result| result["level"].as_str());
    levels.map(|level| level.unwrap().to_owned()).collect()
}

#[test]
fn a_lock_that_recovery_initialises_is_shown_as_such() {
    let dir = TestDir::with("crash/buckets.c", &["-g"]);
    let run = check(&dir, "reset", &[]);
    // A recovery that overwrites everything must not make bugs disappear.
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let said = "recovery overwrites these bytes before it reads them";
    assert!(run.stderr.contains(said), "{}", run.stderr);
    let finding = release(&dir);
    assert_eq!(finding["severity"], "bug", "{finding}");
    assert_eq!(finding["confirmed"], false);
    assert_eq!(finding["read_by_recovery"], false);
    assert_eq!(finding["evidence"]["details"]["overwritten"], said);
    assert!(dir.read("brownout.out/junit.xml").contains(said));
    assert!(dir.read("brownout.out/report.html").contains(said));

    // It stays in results that are made from these, and not with another recovery.
    let linted = dir.brownout(&["lint", "brownout.out", "--out", "brownout.out"]);
    assert_eq!(linted.status, Some(1), "{}", linted.stderr);
    assert_eq!(release(&dir)["evidence"]["details"]["overwritten"], said);
    let arguments = [
        "crash",
        "brownout.out",
        "--recover",
        "./buckets {pm} ignore",
    ];
    let options = ["--out", "brownout.out"];
    let other = dir.brownout(&[&arguments[..], &options].concat());
    assert_eq!(other.status, Some(1), "{}", other.stderr);
    let details = &release(&dir)["evidence"]["details"];
    assert_eq!(details.get("overwritten"), None);
}

#[test]
fn a_lock_that_recovery_leaves_alone_stays_a_bug() {
    let dir = TestDir::with("crash/buckets.c", &["-g"]);
    let run = check(&dir, "ignore", &[]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let finding = release(&dir);
    assert_eq!(finding["severity"], "bug", "{finding}");
    assert_eq!(finding["read_by_recovery"], false);
    assert_eq!(finding["evidence"]["details"].get("overwritten"), None);
    assert_eq!(sarif_levels(&dir), ["error"]);
}

#[test]
fn a_lock_that_recovery_waits_for_is_a_bug() {
    let dir = TestDir::with("crash/buckets.c", &["-g"]);
    let run = check(&dir, "wait", &["--recover-time-limit", "300ms"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let finding = release(&dir);
    assert_eq!(finding["severity"], "bug", "{finding}");
    assert_eq!(finding["read_by_recovery"], true);
    let junit = dir.read("brownout.out/junit.xml");
    assert!(!junit.contains("failures=\"0\""), "{junit}");
}

#[test]
fn who_trusts_recovery_can_let_it_decide() {
    let dir = TestDir::with("crash/buckets.c", &["-g"]);
    let level = "[rules]\nmissing-flush = 'unless-passed'\n";
    std::fs::write(dir.path("brownout.toml"), level).unwrap();

    // Nothing has passed if nothing was tried.
    let untried = dir.brownout(&["check", "--", "./buckets", "pool", "put"]);
    assert_eq!(untried.status, Some(1), "{}", untried.stderr);
    assert_eq!(release(&dir)["severity"], "bug");

    let run = check(&dir, "ignore", &[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let finding = release(&dir);
    assert_eq!(finding["severity"], "warning", "{finding}");
    assert_eq!(finding["confirmed"], false);
    assert_eq!(sarif_levels(&dir), ["warning"]);
    let junit = dir.read("brownout.out/junit.xml");
    assert!(!junit.contains("<failure"), "{junit}");
    let file = crate::run_file(&dir.path("brownout.out"));
    assert_eq!(
        (&file["verdict"], &file["exit_code"]),
        (&"passed".into(), &0.into())
    );

    let run = check(&dir, "wait", &["--recover-time-limit", "300ms"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert_eq!(release(&dir)["severity"], "bug");

    // What one recovery has passed says nothing about another, nor does the level stay without the file.
    let run = check(&dir, "ignore", &[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    std::fs::remove_file(dir.path("brownout.toml")).unwrap();
    let recover = ["--recover", "./buckets {pm} reset"];
    let other = dir.brownout(&[&["crash", "brownout.out"], &recover[..]].concat());
    assert_eq!(other.status, Some(1), "{}", other.stderr);
    assert_eq!(release(&dir)["severity"], "bug");

    let level = "[rules]\nredundant-fence = 'unless-passed'\n";
    std::fs::write(dir.path("brownout.toml"), level).unwrap();
    let refused = check(&dir, "ignore", &[]);
    assert_eq!(refused.status, Some(2), "{}", refused.stderr);
    let why = "`redundant-fence` cannot be `unless-passed`";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
}
