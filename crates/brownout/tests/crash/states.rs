//! States between stores, and recoveries that show less than they seem to: they fail everywhere, not each time, or do not end.

use std::fs;

use serde_json::Value;

use crate::{TestDir, crash_rules, functions, run_file};

/// The results of checking `torn` with this recovery.
struct Checked {
    dir: TestDir,
    status: Option<i32>,
    stderr: String,
}

impl Checked {
    fn new(recover: &str, options: &[&str], count: &str) -> Self {
        Self::of("put", recover, options, count)
    }

    /// Checks `torn` while it changes its words in this way.
    fn of(how: &str, recover: &str, options: &[&str], count: &str) -> Self {
        let dir = TestDir::with("crash/torn.c", &["-g"]);
        let mut arguments = vec!["check", "--recover", recover];
        arguments.extend(options);
        arguments.extend(["--", "./torn", "pool", how, count]);
        let run = dir.brownout(&arguments);
        Self {
            dir,
            status: run.status,
            stderr: run.stderr,
        }
    }

    fn result(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path("brownout.out").join(name)).unwrap()
    }

    fn run_file(&self) -> Value {
        run_file(&self.dir.path("brownout.out"))
    }
}

#[test]
fn a_torn_update_is_found_by_default() {
    let checked = Checked::new("./torn {pm} check", &[], "5");
    assert_eq!(checked.status, Some(1), "{}", checked.stderr);
    let found = checked.dir.findings();
    assert_eq!(crash_rules(&found), ["recovery-failed"]);
    let crash = found
        .iter()
        .find(|finding| finding["rule"] == "recovery-failed")
        .unwrap();
    assert_eq!(functions(crash, "failure point")[0], "put");
    assert_eq!(functions(crash, "store that is there")[0], "put");
    assert_eq!(functions(crash, "store that is missing")[0], "put");

    let run_file = checked.run_file();
    assert_eq!(run_file["verdict"], "findings");
    // One state between the two stores of each change.
    let stores = &run_file["crash"]["stores"];
    assert_eq!((&stores["tried"], &stores["of"]), (&5.into(), &5.into()));
    assert_eq!(run_file["crash"]["complete"], true);
    let summary = ", and 5 of 5 states between stores";
    assert!(checked.stderr.contains(summary), "{}", checked.stderr);
    assert!(checked.result("junit.xml").contains("<failure"));
    assert!(checked.result("report.sarif").contains("recovery-failed"));
}

#[test]
fn states_inside_operations_and_before_syncs_are_tried_by_default() {
    for (how, options) in [("put", &["--op", "put"][..]), ("sync", &[])] {
        let checked = Checked::of(how, "./torn {pm} check", options, "5");
        assert_eq!(checked.status, Some(1), "{how}: {}", checked.stderr);
        let found = checked.dir.findings();
        assert_eq!(crash_rules(&found), ["recovery-failed"], "{how}");
        let stores = &checked.run_file()["crash"]["stores"];
        assert_eq!(
            (&stores["tried"], &stores["of"]),
            (&5.into(), &5.into()),
            "{how}"
        );
        assert_eq!(checked.run_file()["exit_code"], 1, "{how}");
        assert!(checked.result("junit.xml").contains("<failure"), "{how}");
        assert!(
            checked.result("report.sarif").contains("recovery-failed"),
            "{how}"
        );
    }
}

#[test]
fn states_between_stores_are_not_required() {
    let checked = Checked::new("cat {pm}", &["--occurrences", "1"], "5");
    assert_eq!(checked.status, Some(0), "{}", checked.stderr);
    let crash = &checked.run_file()["crash"];
    assert_eq!(crash["complete"], true);
    assert_eq!(crash["stores"]["tried"], 0, "{crash}");
}

#[test]
fn a_recovery_that_fails_everywhere_alike_is_not_run_thousands_of_times() {
    // It passes only after all operations.
    let recover = r#"test "$BROWNOUT_OP" = 3000"#;
    let options = ["--op", "put", "--no-narrowing", "--time-limit", "1h"];
    let checked = Checked::new(recover, &options, "3000");
    assert_eq!(checked.status, Some(1), "{}", checked.stderr);
    let run_file = checked.run_file();
    let crash = &run_file["crash"];
    assert!(crash["recoveries"].as_u64().unwrap() < 3000, "{crash}");
    assert_eq!(crash["complete"], false);
    assert_eq!(crash["limit_reached"], false);
    let reasons = run_file["reasons"].to_string();
    assert!(reasons.contains("in the same way"), "{reasons}");
    assert!(
        checked.stderr.contains("in the same way"),
        "{}",
        checked.stderr
    );
    assert!(checked.result("junit.xml").contains("<failure"));
}

#[test]
fn a_recovery_that_passes_the_second_time_is_no_bug_and_no_pass() {
    // Recovery runs again to see where it fails, and is traced then.
    let recover = r#"test "$BROWNOUT_OP" = 3 || ! grep -q 'TracerPid:.0$' /proc/self/status"#;
    let checked = Checked::new(recover, &["--op", "put"], "3");
    assert_eq!(checked.status, Some(3), "{}", checked.stderr);
    let found = checked.dir.findings();
    let crash = found
        .iter()
        .find(|finding| finding["rule"] == "recovery-failed");
    let crash = crash.unwrap();
    assert_eq!(crash["severity"], "warning");
    let message = crash["message"].as_str().unwrap();
    assert!(message.contains("passes when it runs again"), "{message}");
    let reasons = checked.run_file()["reasons"].to_string();
    assert!(reasons.contains("not deterministic"), "{reasons}");
    assert!(checked.result("junit.xml").contains("<error"));
    let sarif = checked.result("report.sarif");
    assert!(sarif.contains("\"executionSuccessful\":false"), "{sarif}");
}

#[test]
fn recoveries_that_outlast_the_time_limit_are_named() {
    let recover = r#"test "$BROWNOUT_OP" = 3 || sleep 60"#;
    let options = ["--op", "put", "--time-limit", "100ms"];
    let checked = Checked::new(recover, &options, "3");
    assert_eq!(checked.status, Some(3), "{}", checked.stderr);
    let reasons = checked.run_file()["reasons"].to_string();
    assert!(reasons.contains("may hang"), "{reasons}");
    assert!(checked.result("junit.xml").contains("<error"));
}
