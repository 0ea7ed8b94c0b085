//! Recoveries that are scripts: what failed is the program that they check with, whatever they run afterwards.

use std::fs;

use serde_json::Value;

use crate::{TestDir, functions, recovery_failure, run_file};

#[test]
fn the_stack_is_that_of_the_program_that_failed_and_not_of_what_the_script_runs_later() {
    let dir = TestDir::new();
    let script = "./slots pool check abort > printed\n\
                  status=$?\n\
                  echo nothing > expected\n\
                  cmp printed expected\n\
                  exit $status\n";
    fs::write(dir.path("check.sh"), script).unwrap();
    let run = dir.check("sh check.sh", &[], &["2", "early"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let found = dir.findings();
    let failure = recovery_failure(&found);
    let recovery = functions(failure, "recovery");
    assert!(recovery.contains(&"damaged"), "{recovery:?}");
    assert!(recovery.contains(&"check"), "{recovery:?}");

    let file = run_file(&dir.path("brownout.out"));
    assert_eq!(
        (&file["verdict"], &file["exit_code"]),
        (&"findings".into(), &1.into())
    );
    let junit = dir.read("brownout.out/junit.xml");
    assert!(junit.contains("damaged at slots.c"), "{junit}");
    assert!(junit.contains("type=\"recovery-failed\""), "{junit}");
    let sarif: Value = serde_json::from_str(&dir.read("brownout.out/report.sarif")).unwrap();
    let run = &sarif["runs"][0];
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);
    let results = run["results"].as_array().unwrap();
    assert!(results.iter().any(|result| {
        result["ruleId"] == "recovery-failed" && result.to_string().contains("damaged")
    }));
}
