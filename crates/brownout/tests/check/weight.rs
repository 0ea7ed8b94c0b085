//! How much of what a target stores is ever guaranteed.

use serde_json::{Value, json};

use crate::TestDir;

fn files(dir: &TestDir) -> Value {
    let run: Value = serde_json::from_str(&dir.read("brownout.out/run.json")).unwrap();
    run["files"].clone()
}

#[test]
fn a_target_that_flushes_almost_nothing_does_not_look_harmless() {
    let dir = TestDir::with("check/server.c", &["-g"]);
    let run = dir.brownout(&["check", "--", "./server", "pool"]);
    let sentence = "400 of 401 stores to `pool` are never guaranteed to be durable";
    assert!(run.stderr.contains(sentence), "{}", run.stderr);
    let path = dir.path("pool").canonicalize().unwrap();
    let expected = json!([{"path": path, "stores": 401, "never_guaranteed": 400}]);
    assert_eq!(files(&dir), expected);
    assert!(dir.read("brownout.out/report.html").contains(sentence));
    let result: Value = serde_json::from_str(&dir.read("brownout.out/run.json")).unwrap();
    assert_eq!(result["exit_code"], json!(run.status), "{result}");
    for artefact in ["junit.xml", "report.sarif"] {
        let text = dir.read(&format!("brownout.out/{artefact}"));
        assert!(text.contains(sentence), "{text}");
    }
    let again = dir.brownout(&["report", "brownout.out"]);
    assert!(again.stdout.contains(sentence), "{}", again.stdout);
}

#[test]
fn a_target_that_flushes_everything_is_not_reproached() {
    let dir = TestDir::with("check/server.c", &["-g"]);
    let run = dir.brownout(&["check", "--", "./server", "pool", "flush"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert!(!run.stderr.contains("never guaranteed"), "{}", run.stderr);
    assert_eq!(files(&dir)[0]["never_guaranteed"], 0);
    assert_eq!(files(&dir)[0]["stores"], 401);
}
