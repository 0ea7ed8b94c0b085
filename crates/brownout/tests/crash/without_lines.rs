//! Code without line information: mistakes are distinguished by where they are in their module, and by what recovery prints.

use serde_json::Value;

use crate::{TestDir, crash_rules, run_file};

#[test]
fn two_mistakes_in_code_without_lines_stay_two() {
    let dir = TestDir::with("crash/sides.c", &["-s"]);
    let recover = "./sides {pm} check";
    let run = dir.brownout(&[
        "check",
        "--recover",
        recover,
        "--",
        "./sides",
        "pool",
        "put",
    ]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let found = dir.findings();
    assert_eq!(crash_rules(&found), ["recovery-failed", "recovery-failed"]);
    let outputs = found.iter().filter_map(|finding| {
        let details = &finding["evidence"]["details"];
        details["last output"].as_str()
    });
    let mut outputs: Vec<&str> = outputs.collect();
    outputs.sort_unstable();
    assert_eq!(
        outputs,
        ["the left value is lost", "the right value is lost"]
    );
    assert!(run.stderr.contains("/sides+0x"), "{}", run.stderr);

    assert_eq!(run_file(&dir.path("brownout.out"))["findings"], 2);
    let junit = dir.read("brownout.out/junit.xml");
    assert_eq!(junit.matches("type=\"recovery-failed\"").count(), 2);
    let sarif: Value = serde_json::from_str(&dir.read("brownout.out/report.sarif")).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let fingerprints = results
        .iter()
        .map(|result| result["partialFingerprints"].to_string());
    let fingerprints: std::collections::BTreeSet<String> = fingerprints.collect();
    assert_eq!((results.len(), fingerprints.len()), (2, 2));
}
