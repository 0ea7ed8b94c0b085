//! What a run has not tested is named, and keeps it from passing.

use serde_json::{Value, json};

use crate::{Completed, TestDir};

impl TestDir {
    fn quiet() -> Self {
        Self::with("check/quiet.c", &["-g"])
    }

    fn run_json(&self) -> Value {
        serde_json::from_str(&self.read("brownout.out/run.json")).unwrap()
    }
}

/// A run that has not passed because of `reason`, in all artefacts.
fn assert_untested(dir: &TestDir, run: &Completed, reason: &str, kind: &str) {
    assert_eq!(run.status, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains(reason), "{}", run.stderr);
    let result = dir.run_json();
    assert_eq!(result["verdict"], "nothing-tested", "{result}");
    assert_eq!(result["reason_kinds"], json!([kind]), "{result}");
    let junit = dir.read("brownout.out/junit.xml");
    assert!(junit.contains("<error"), "{junit}");
    let sarif = dir.read("brownout.out/report.sarif");
    assert!(sarif.contains("\"executionSuccessful\":false"), "{sarif}");
}

#[test]
fn a_pattern_that_matches_nothing_is_named_beside_one_that_matches() {
    let dir = TestDir::quiet();
    let check = ["check", "--pm", "pool", "--pm", "idnex"];
    let program = ["--", "./quiet", "pool", "beside", "index"];
    let run = dir.brownout(&[&check[..], &program].concat());
    let reason = "no mapped file matches --pm 'idnex'; did you mean `index`?";
    assert_untested(&dir, &run, reason, "unmatched-pattern");
    let lint = ["lint", "brownout.out", "--out", "brownout.out"];
    let again = dir.brownout(&lint);
    assert_untested(&dir, &again, reason, "unmatched-pattern");
    let right = dir.brownout(&[&lint[..], &["--pm", "pool"]].concat());
    assert_eq!(right.status, Some(0), "{}", right.stderr);
}

#[test]
fn a_program_that_stores_nothing_shows_nothing() {
    let dir = TestDir::quiet();
    let check = ["check", "--pm", "pool", "--", "./quiet", "pool", "read"];
    let run = dir.brownout(&check);
    assert_untested(&dir, &run, "stores nothing to", "nothing-persistent");
    let lint = dir.brownout(&["lint", "brownout.out", "--out", "brownout.out"]);
    assert_untested(&dir, &lint, "stores nothing to", "nothing-persistent");
}

#[test]
fn a_mapped_file_that_is_never_flushed_is_named() {
    let dir = TestDir::quiet();
    let program = ["--", "./quiet", "pool", "beside", "index"];
    let run = dir.brownout(&[&["check"], &program[..]].concat());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let sentence = "considered and not judged: `index`";
    assert!(run.stderr.contains(sentence), "{}", run.stderr);
    let index = dir.path("index").canonicalize().unwrap();
    assert_eq!(dir.run_json()["not_judged"], json!([index]));
    for artefact in ["report.html", "junit.xml", "report.sarif"] {
        let text = dir.read(&format!("brownout.out/{artefact}"));
        assert!(text.contains(sentence), "{artefact}: {text}");
    }
    let again = dir.brownout(&["report", "brownout.out"]);
    assert!(again.stdout.contains(sentence), "{}", again.stdout);

    let recover = ["check", "--recover", "./quiet {pm} check"];
    let run = dir.brownout(&[&recover[..], &program].concat());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let sentence = "not in the crash images: `";
    assert!(run.stderr.contains(sentence), "{}", run.stderr);
    assert_eq!(dir.run_json()["left_out"]["mapped"], json!([index]));

    let named = dir.brownout(&[&["check", "--pm", "index", "--pm", "pool"], &program[..]].concat());
    assert!(!named.stderr.contains("not judged"), "{}", named.stderr);
    assert_eq!(dir.run_json()["not_judged"], Value::Null);
}

#[test]
fn races_that_cannot_be_forced_are_no_success() {
    let dir = TestDir::new();
    for (option, why) in [
        (&[][..], "no load was recorded that threads share"),
        (
            &["--config", "off.toml"],
            "the rule `persistency-race` is off",
        ),
    ] {
        dir.write("off.toml", "[rules]\npersistency-race = \"off\"\n");
        let run = dir.check(&[&["--confirm"], option].concat(), &[]);
        assert_untested(&dir, &run, "no race was forced", "other");
        assert!(run.stderr.contains(why), "{}", run.stderr);
    }
    let run = dir.check(&[], &[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
}

#[test]
fn fix_says_why_nothing_was_found() {
    let dir = TestDir::quiet();
    let check = ["check", "--pm", "pool", "--", "./quiet", "pool", "read"];
    assert_eq!(dir.brownout(&check).status, Some(3));
    let fix = dir.brownout(&["fix", "brownout.out"]);
    assert_eq!(fix.status, Some(3), "{}", fix.stderr);
    assert!(fix.stderr.contains("stores nothing to"), "{}", fix.stderr);
    assert!(!fix.stdout.contains("nothing to repair"), "{}", fix.stdout);
}

#[test]
fn gaps_and_the_share_of_lost_stores_are_in_every_artefact() {
    let dir = TestDir::with("check/server.c", &["-g"]);
    let run = dir.brownout(&["check", "--", "./server", "pool"]);
    let sentence = "400 of 401 stores to `pool` are never guaranteed to be durable";
    assert!(run.stderr.contains(sentence), "{}", run.stderr);
    // As if something could not have been examined.
    let mut result = dir.run_json();
    let gap = "a source file was not found";
    result["gaps"] = json!([gap]);
    dir.write("brownout.out/run.json", &result.to_string());
    let report = ["report", "brownout.out", "--junit", "j.xml", "--sarif", "s"];
    let again = dir.brownout(&report);
    assert_eq!(again.status, run.status, "{}", again.stderr);
    assert!(again.stderr.contains(gap), "{}", again.stderr);
    for artefact in ["j.xml", "s"] {
        let text = dir.read(artefact);
        assert!(text.contains(gap), "{text}");
        assert!(text.contains(sentence), "{text}");
    }
}
