//! `brownout race` and the search for races of `brownout check`, on programs of the corpus.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus");

/// A program, usually of the corpus, built in a directory of its own.
struct Built {
    directory: tempfile::TempDir,
}

impl Built {
    fn new(name: &str) -> Self {
        Self::compiled(&Path::new(CORPUS).join(name), tempfile::tempdir().unwrap())
    }

    /// A program that is no part of the corpus.
    fn of(code: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("program.c");
        fs::write(&source, code).unwrap();
        Self::compiled(&source, directory)
    }

    fn compiled(source: &Path, directory: tempfile::TempDir) -> Self {
        let mut compiler = Command::new("cc");
        compiler.args(["-g", "-O1", "-D_GNU_SOURCE", "-DVARIANT_clflush"]);
        compiler.args(["-I", CORPUS]).arg(source).arg("-pthread");
        let built = compiler.arg("-o").arg(directory.path().join("program"));
        assert!(built.status().unwrap().success(), "{}", source.display());
        Built { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn brownout(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_brownout"))
            .args(words)
            .current_dir(self.directory.path())
            .output()
            .unwrap()
    }

    /// The findings and the exit status of a command that prints JSON lines.
    fn findings(&self, words: &[&str]) -> (Vec<Value>, i32) {
        let output = self.brownout(words);
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().filter(|line| line.starts_with('{'));
        let findings = lines.map(|line| serde_json::from_str(line).unwrap());
        (findings.collect(), output.status.code().unwrap())
    }

    fn record(&self, option: &[&str]) {
        let mut words = vec!["record", "-q", "-o", "trace"];
        words.extend(option);
        words.extend(["--", "./program", "pool"]);
        let output = self.brownout(&words);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
    }
}

fn roles(finding: &Value) -> Vec<&str> {
    let stacks = finding["stacks"].as_array().unwrap();
    stacks
        .iter()
        .map(|stack| stack["role"].as_str().unwrap())
        .collect()
}

#[test]
fn an_inferred_race_is_a_warning_with_its_store_persist_and_load() {
    let built = Built::new("persistency-race/after_unlock.c");
    built.record(&["--loads"]);
    let (findings, status) = built.findings(&["race", "trace", "--format", "json"]);
    assert_eq!((findings.len(), status), (1, 0));
    let finding = &findings[0];
    assert_eq!(finding["rule"], "persistency-race");
    assert_eq!(
        (&finding["severity"], &finding["category"]),
        (&"warning".into(), &"race".into())
    );
    assert_eq!(roles(finding), ["store", "persist", "load"]);
    let details = &finding["evidence"]["details"];
    assert!(details["race"].as_str().unwrap().starts_with("inferred"));
    assert_eq!(details["locks at the persist"], "none");
    assert_eq!(details["locks at the store"], details["locks at the load"]);
    let (_, status) = built.findings(&["race", "trace", "--fail-on", "warning"]);
    assert_eq!(status, 1);
}

#[test]
fn an_observed_race_with_harm_is_a_bug_and_check_finds_it_unasked() {
    let built = Built::new("persistency-race/publish_first.c");
    let check = ["check", "-q", "--out", "out", "--format", "json", "--"];
    let words = [&check[..], &["./program", "pool"]].concat();
    let (findings, status) = built.findings(&words);
    assert_eq!((findings.len(), status), (1, 1));
    assert_eq!(findings[0]["severity"], "bug");
    assert_eq!(
        roles(&findings[0]),
        ["store", "persist", "load", "dependent store"]
    );
    let run: Value =
        serde_json::from_slice(&fs::read(built.path("out/run.json")).unwrap()).unwrap();
    assert_eq!(run["rules"]["persistency-race"], "warning");
    let tested = run["tested"].as_array().unwrap();
    assert!(
        tested
            .iter()
            .any(|text| text.as_str().unwrap().ends_with("for races")),
        "{run}"
    );
    for file in ["report.html", "report.sarif", "junit.xml"] {
        let text = fs::read_to_string(built.path("out").join(file)).unwrap();
        assert!(text.contains("persistency-race"), "{file}");
    }
    // Other commands keep what this one has found, and the other way round.
    let (linted, status) = built.findings(&["lint", "out", "--out", "out", "--format", "json"]);
    assert_eq!((linted.len(), status), (1, 1));
    let (raced, status) = built.findings(&["race", "out", "--out", "out", "--format", "json"]);
    assert_eq!((raced.len(), status), (1, 1));
    assert_eq!(raced[0]["id"], findings[0]["id"]);
    let run: Value =
        serde_json::from_slice(&fs::read(built.path("out/run.json")).unwrap()).unwrap();
    assert_eq!(run["tested"].as_array().unwrap().len(), 2, "{run}");
}

#[test]
fn a_trace_that_cannot_show_races_is_not_green() {
    let built = Built::new("persistency-race/after_unlock.c");
    built.record(&[]);
    let output = built.brownout(&["race", "trace"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("the trace contains no loads"), "{stderr}");
    let built = Built::new("clean/delayed_persist_in_order.c");
    built.record(&["--loads"]);
    let output = built.brownout(&["race", "trace"]);
    assert_eq!(output.status.code(), Some(3));
}

/// An object is used a second time after another thread has read it in its first life.
const SLAB: &str = r#"
#include "pm.h"
#include "turns.h"

static struct line *pm;

__attribute__((noinline, noipa)) struct line *slab_alloc(uint64_t bytes) {
  return &pm[bytes / 64];
}

static void *reader(void *unused) {
  await_turn(1);
  LOAD(pm[1].word[0]);
  end_turn();
  return unused;
}

static void *writer(void *unused) {
  for (int life = 0; life < 2; life++) {
    struct line *object = slab_alloc(64);
    STORE(object->word[0], life + 7);
    PERSIST(object->word[0]);
    end_turn();
    while (turn < 2)
      sched_yield();
  }
  return unused;
}

int main(int argc, char **argv) {
  pm = map_pool(argv[1]);
  run_threads(reader, writer);
  return argc - 2;
}
"#;

#[test]
fn an_allocator_of_the_program_makes_memory_private_again() {
    let built = Built::of(SLAB);
    let check = ["check", "-q", "--out", "out", "--format", "json", "--"];
    let words = [&check[..], &["./program", "pool"]].concat();
    let (findings, _) = built.findings(&words);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings[0]["rule"], "persistency-race");
    let own = "[memory]\nallocate = [{ function = 'slab_alloc', size = 0 }]\n";
    fs::write(built.path("brownout.toml"), own).unwrap();
    assert_eq!(built.findings(&words), (Vec::new(), 0));
}

#[test]
fn the_rule_can_be_turned_off_and_suppressed() {
    let built = Built::new("persistency-race/after_unlock.c");
    built.record(&["--loads"]);
    let rules = "[rules]\npersistency-race = \"off\"\n";
    fs::write(built.path("brownout.toml"), rules).unwrap();
    let (findings, status) = built.findings(&["race", "trace", "--format", "json"]);
    assert_eq!((findings.len(), status), (0, 0));
    fs::remove_file(built.path("brownout.toml")).unwrap();
    let output = built.brownout(&["race", "trace", "--gen-suppressions"]);
    fs::write(built.path("accepted.toml"), output.stdout).unwrap();
    let suppressed = [
        "race",
        "trace",
        "--suppressions",
        "accepted.toml",
        "--format",
        "json",
    ];
    assert_eq!(built.findings(&suppressed), (Vec::new(), 0));
}

#[test]
fn stores_to_private_memory_are_reported_on_request() {
    let built = Built::new("clean/persistency_race_node_not_durable.c");
    built.record(&["--loads"]);
    let (findings, _) = built.findings(&["race", "trace", "--format", "json"]);
    assert!(findings.is_empty(), "{findings:?}");
    let all = ["race", "trace", "--no-init-removal", "--format", "json"];
    assert_eq!(built.findings(&all).0.len(), 1);
}
