//! `brownout check` as users see it: results, exit codes, suppressions and baselines, options from a file, and
//! unusual programs and traces.
//!
//! The program under test is `counter.c`, whose mistakes its arguments choose.

mod artefacts;
mod changes;
mod config;
mod decisions;
mod demo;
mod directories;
mod failed_target;
mod fix;
mod fix_proofs;
mod fix_removals;
mod joining;
mod past_engine;
mod results;
mod run_end;
mod schema;
mod severities;
mod shortened;
mod stale_results;
mod untested;
mod unusual;
mod weight;
mod wrappers;

#[path = "../test_dir/mod.rs"]
mod test_dir;

use std::fs;
use std::process::Command;

use serde_json::Value;
use test_dir::{Completed, TestDir, findings};

impl TestDir {
    fn new() -> Self {
        Self::compiled(&["-g"])
    }

    fn compiled(options: &[&str]) -> Self {
        Self::with("check/counter.c", options)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Compiles the program from the source that is in the directory now.
    fn compile_again(&self) {
        let compiled = Command::new("cc")
            .args(["-O1", "-g", "-o", "counter", "counter.c"])
            .current_dir(self.directory.path())
            .status();
        assert!(compiled.unwrap().success());
    }

    /// Checks the program with these mistakes in it.
    fn check(&self, options: &[&str], mistakes: &[&str]) -> Completed {
        let mut arguments = vec!["check"];
        arguments.extend(options);
        arguments.extend(["--", "./counter", "pool"]);
        arguments.extend(mistakes);
        self.brownout(&arguments)
    }
}

/// Arguments with which a recovery that does nothing tests crashes of a trace.
fn test_crashes<'a>(trace: &'a str, out: &'a str) -> [&'a str; 6] {
    ["crash", trace, "--recover", "true", "--out", out]
}

/// The rules of findings with severity `bug`.
fn bugs(findings: &[Value]) -> Vec<&str> {
    rules_of(findings, "bug")
}

/// The rules of findings with this severity.
fn rules_of<'a>(findings: &'a [Value], severity: &str) -> Vec<&'a str> {
    findings
        .iter()
        .filter(|finding| finding["severity"] == severity)
        .map(|finding| finding["rule"].as_str().unwrap())
        .collect()
}
