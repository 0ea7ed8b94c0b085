//! What a rule reports is the same in every artefact: exit code, `run.json`, JUnit and SARIF.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::{TestDir, findings};

/// A program of the corpus, the rule that it shows, and the exit code of the check.
struct Shown {
    source: &'static str,
    flags: &'static [&'static str],
    rule: &'static str,
    code: i32,
}

/// One for each rule that nothing but an error in the order of events at the end of a run shows, or a value.
const SHOWN: [Shown; 11] = [
    Shown {
        source: "missing-fence/exit.c",
        flags: &["-pthread"],
        rule: "missing-fence",
        code: 1,
    },
    Shown {
        source: "missing-fence/unmapped.c",
        flags: &[],
        rule: "missing-fence",
        code: 1,
    },
    Shown {
        source: "missing-fence/thread_end.c",
        flags: &["-pthread"],
        rule: "missing-fence",
        code: 1,
    },
    Shown {
        source: "tx-not-ended/exits.c",
        flags: &["-lpmemobj", "-lpmem"],
        rule: "tx-not-ended",
        code: 1,
    },
    Shown {
        source: "unpersisted-target/address.c",
        flags: &[],
        rule: "unpersisted-target",
        code: 0,
    },
    Shown {
        source: "accidental-fence/counted.c",
        flags: &[],
        rule: "accidental-fence",
        code: 0,
    },
    Shown {
        source: "missing-flush/unaligned_msync.c",
        flags: &[],
        rule: "missing-flush",
        code: 1,
    },
    Shown {
        source: "transient-data/lock.c",
        flags: &[],
        rule: "transient-data",
        code: 0,
    },
    Shown {
        source: "transient-data/version_lock.c",
        flags: &[],
        rule: "transient-data",
        code: 0,
    },
    Shown {
        source: "missing-flush/exchanged_flag.c",
        flags: &[],
        rule: "missing-flush",
        code: 1,
    },
    Shown {
        source: "missing-flush/atomic_count.c",
        flags: &[],
        rule: "missing-flush",
        code: 1,
    },
];

/// Compiles a program of the corpus. Returns whether that was possible: a library may not be installed.
fn compile(dir: &TestDir, shown: &Shown) -> bool {
    let corpus = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus"));
    let has_clwb = std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|cpu| cpu.contains("clwb"));
    let compiled = Command::new("cc")
        .args([
            "-g",
            "-O0",
            "-D_GNU_SOURCE",
            "-Wl,--build-id",
            "-o",
            "shown",
        ])
        .args((!has_clwb).then_some("-DNO_CLWB"))
        .arg(corpus.join(shown.source))
        .args(shown.flags)
        .current_dir(dir.directory.path())
        .output();
    let is_compiled = compiled.unwrap().status.success();
    let needs_library = shown.flags.contains(&"-lpmemobj");
    assert!(is_compiled || needs_library, "{}", shown.source);
    is_compiled
}

/// The level of each result of a rule in the SARIF file.
fn levels(sarif: &Value, rule: &str) -> Vec<Value> {
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let of_rule = results.iter().filter(|result| result["ruleId"] == rule);
    of_rule.map(|result| result["level"].clone()).collect()
}

#[test]
fn what_a_rule_reports_is_the_same_in_every_artefact() {
    for shown in SHOWN {
        let dir = TestDir::new();
        if !compile(&dir, &shown) {
            println!("left out: {} cannot be compiled here", shown.source);
            continue;
        }
        let mut command = dir.command(&["check", "--", "./shown", "pool"]);
        let run = command.env("PMEM_IS_PMEM_FORCE", "1").output().unwrap();
        let text = String::from_utf8_lossy(&run.stderr);
        let Shown { rule, code, .. } = shown;
        assert_eq!(run.status.code(), Some(code), "{rule}: {text}");
        assert!(text.contains(&format!("[{rule}]")), "{text}");
        let found = findings(&dir.path("brownout.out"));
        let rules = found.iter().map(|finding| finding["rule"].as_str());
        let count = rules.filter(|found| *found == Some(rule)).count();
        assert!(count > 0, "{rule}: {found:?}");

        let result: Value = serde_json::from_str(&dir.read("brownout.out/run.json")).unwrap();
        let verdict = if code == 0 { "passed" } else { "findings" };
        assert_eq!(
            (&result["verdict"], &result["exit_code"]),
            (&json!(verdict), &json!(code))
        );
        let junit = dir.read("brownout.out/junit.xml");
        let failures = junit.matches(&format!("type=\"{rule}\"")).count();
        assert_eq!(failures, if code == 0 { 0 } else { count }, "{junit}");
        assert!(!junit.contains("<error"), "{junit}");
        let sarif = serde_json::from_str(&dir.read("brownout.out/report.sarif")).unwrap();
        let level = if code == 0 { "warning" } else { "error" };
        assert_eq!(levels(&sarif, rule), vec![json!(level); count], "{rule}");
        let invocation = &sarif["runs"][0]["invocations"][0];
        assert_eq!(invocation["executionSuccessful"], true, "{invocation}");
        let again = dir.brownout(&["report", "brownout.out"]);
        assert_eq!(again.status, Some(code), "{}", again.stderr);
    }
}
