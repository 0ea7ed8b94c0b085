//! Stores that persist in part: by default in halves, with `--tearing words` in every combination of words.

use crate::test_dir::{Completed, TestDir, findings};
use crate::{crashes, functions, run_file};

/// Records that both words are changed three times, each time by one store.
fn recorded() -> TestDir {
    let dir = TestDir::with("crash/wide.c", &["-g"]);
    let target = ["--", "./wide", "pool", "put", "3"];
    let run = dir.brownout(&[&["record", "-q", "-o", "trace"], &target[..]].concat());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    dir
}

fn explore(dir: &TestDir, options: &[&str]) -> Completed {
    let crash = ["crash", "trace", "--recover", "./wide {pm} check"];
    let exhaustive = ["--strategy", "exhaustive", "--out", "out"];
    dir.brownout(&[&crash[..], &exhaustive, options].concat())
}

#[test]
fn stores_are_whole_unless_it_is_said_that_they_tear() {
    let dir = recorded();
    for option in [&[][..], &["--tearing", "whole"]] {
        let run = explore(&dir, option);
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        let explored = &run_file(&dir.path("out"))["crash"]["exploration"];
        // The words are 0 to 3.
        assert_eq!(explored["executions"], 4, "{explored}");
        assert_eq!(explored["torn_stores"], false, "{explored}");
        assert!(!run.stderr.contains("torn"), "{}", run.stderr);
    }
}

#[test]
fn the_default_strategy_tears_wide_stores_in_halves() {
    let dir = recorded();
    let crash = ["crash", "trace", "--recover", "./wide {pm} check"];
    let run = dir.brownout(&[&crash[..], &["--out", "out"]].concat());
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let tried = &run_file(&dir.path("out"))["crash"]["orders"];
    let six = serde_json::json!({ "tried": 6, "of": 6 });
    assert_eq!(*tried, six, "each of three stores in two ways");
    let findings = findings(&dir.path("out"));
    assert_eq!(crashes(&findings).len(), 1, "{findings:?}");
    let finding = &findings[0];
    assert_eq!(functions(finding, "store that is missing")[0], "put");
    let message = finding["message"].as_str().unwrap();
    assert!(message.contains("only in part"), "{message}");
    let id = finding["id"].as_str().unwrap();
    let replayed = dir.brownout(&["replay", "out", id]);
    assert_eq!(replayed.status, Some(1), "{}", replayed.stderr);
}

#[test]
fn a_torn_store_is_found_explained_and_replayed() {
    let dir = recorded();
    let run = explore(&dir, &["--tearing", "words"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(
        run.stderr.contains("torn stores included"),
        "{}",
        run.stderr
    );
    let crash = &run_file(&dir.path("out"))["crash"];
    let explored = &crash["exploration"];
    assert_eq!(crash["complete"], true, "{crash}");
    // Each store is present, absent, or present in one of its two words.
    assert_eq!(explored["executions"], 4 + 3 * 2, "{explored}");
    let states = explored["states_log10"].as_f64().unwrap();
    assert!(
        (states - 13_f64.log10()).abs() < 1e-6,
        "3 * 4 + 1: {states}"
    );
    let findings = findings(&dir.path("out"));
    assert_eq!(crashes(&findings).len(), 1, "{findings:?}");
    let finding = &findings[0];
    assert_eq!(functions(finding, "store that is missing")[0], "put");
    let message = finding["message"].as_str().unwrap();
    assert!(message.contains("only in part"), "{message}");
    let torn = finding["evidence"]["details"]["torn store"].as_str();
    let torn = torn.unwrap_or_default();
    let [first, second] = ["bytes 0x40..0x48", "bytes 0x48..0x50"];
    assert!(torn.contains(first) || torn.contains(second), "{torn}");
    assert!(
        torn.contains("of this store are persisted, the rest is not"),
        "{torn}"
    );
    let token = finding["replay"].as_str().unwrap();
    let replayed = dir.brownout(&["replay", "trace", token]);
    assert_eq!(replayed.status, Some(1), "{}", replayed.stderr);
    let kept = dir.brownout(&["replay", "trace", token, "--keep", "image"]);
    assert_eq!(kept.status, Some(0), "{}", kept.stderr);
    let image = std::fs::read(dir.path("image")).unwrap();
    assert_ne!(image[0x40..0x48], image[0x48..0x50]);
}

#[test]
fn results_with_and_without_torn_stores_are_not_mixed() {
    let dir = recorded();
    let whole = explore(&dir, &["--time-limit", "1ms"]);
    assert_eq!(whole.status, Some(3), "{}", whole.stderr);
    let words = explore(&dir, &["--tearing", "words", "--resume"]);
    assert_eq!(words.status, Some(2), "{}", words.stderr);
    assert!(words.stderr.contains("other options"), "{}", words.stderr);
    let resumed = explore(&dir, &["--tearing", "whole", "--resume"]);
    assert_eq!(resumed.status, Some(0), "{}", resumed.stderr);
    std::fs::rename(dir.path("out"), dir.path("whole")).unwrap();
    let words = explore(&dir, &["--tearing", "words"]);
    assert_eq!(words.status, Some(1), "{}", words.stderr);
    let merged = dir.brownout(&["merge", "whole", "out", "--out", "merged"]);
    assert_eq!(merged.status, Some(2), "{}", merged.stderr);
    assert!(merged.stderr.contains("other options"), "{}", merged.stderr);
}

#[test]
fn strategies_that_do_not_explore_refuse_it() {
    let dir = recorded();
    let crash = ["crash", "trace", "--recover", "./wide {pm} check"];
    let run = dir.brownout(&[&crash[..], &["--tearing", "words"]].concat());
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    assert!(
        run.stderr.contains("--tearing has no effect"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_configuration_file_can_say_that_stores_tear() {
    let dir = TestDir::with("crash/wide.c", &["-g"]);
    let options = "[crash]\nrecover = \"./wide {pm} check\"\nstrategy = \"exhaustive\"\ntearing = \"words\"\n";
    std::fs::write(dir.path("brownout.toml"), options).unwrap();
    let run = dir.brownout(&["check", "--", "./wide", "pool", "put", "1"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
}
