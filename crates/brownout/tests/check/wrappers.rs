//! Findings in a helper that only flushes are shown at its callers.

use serde_json::Value;

use crate::TestDir;

/// The number of the line of `helper.c` that contains `text`.
fn line(dir: &TestDir, text: &str) -> u64 {
    let source = dir.read("helper.c");
    let at = source.lines().position(|line| line.contains(text)).unwrap();
    at as u64 + 1
}

#[test]
fn every_format_shows_the_callers_of_a_flush_helper() {
    for (level, flush) in [
        ("-O0", "in the helper"),
        ("-O2", "in the helper"),
        ("-O0 -DNESTED", "in the part"),
        ("-O2 -DNESTED", "in the part"),
    ] {
        let options: Vec<&str> = level.split(' ').chain(["-g"]).collect();
        let dir = TestDir::with("check/helper.c", &options);
        let options = ["check", "--verbose", "--fail-on", "performance", "--"];
        let run = dir.brownout(&[&options[..], &["./helper", "pool"]].concat());
        assert_eq!(run.status, Some(1), "{}", run.stderr);
        let callers = [line(&dir, "first caller"), line(&dir, "second caller")];
        let helper = line(&dir, flush);

        let findings = dir.findings();
        let redundant = findings
            .iter()
            .filter(|found| found["rule"] == "redundant-flush");
        for finding in redundant {
            let frame = &finding["stacks"][0]["frames"][0];
            assert_eq!(frame["line"], helper, "stacks begin where the flush is");
            assert_eq!(frame["wrapper"], true);
        }

        let sarif: Value = serde_json::from_str(&dir.read("brownout.out/report.sarif")).unwrap();
        let results = sarif["runs"][0]["results"].as_array().unwrap().iter();
        let mut lines: Vec<u64> = results
            .filter(|result| result["ruleId"] == "redundant-flush")
            .map(|result| &result["locations"][0]["physicalLocation"]["region"]["startLine"])
            .map(|line| line.as_u64().unwrap())
            .collect();
        lines.sort_unstable();
        assert_eq!(lines, callers, "{level}");

        let junit = dir.read("brownout.out/junit.xml");
        for caller in callers {
            let shown = format!("helper.c:{caller}");
            assert!(
                run.stderr.contains(&format!("--> {shown}")),
                "{}",
                run.stderr
            );
            assert!(junit.contains(&format!("main at {shown}")), "{junit}");
        }
        assert!(
            !run.stderr.contains(&format!("--> helper.c:{helper}")),
            "{}",
            run.stderr
        );
    }
}
