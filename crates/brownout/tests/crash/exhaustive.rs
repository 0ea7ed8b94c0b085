//! `--strategy exhaustive`: every behaviour of recovery after a crash.

use std::fs;

use serde_json::Value;

use crate::test_dir::{Completed, TestDir, findings};
use crate::{crashes, functions, recovery_failure, run_file};

/// Records that nodes are put into the list.
fn recorded(put: &[&str]) -> TestDir {
    let dir = TestDir::with("crash/list.c", &["-g"]);
    let run = dir.brownout(
        &[
            &["record", "-q", "-o", "trace", "--", "./list", "pool", "put"],
            put,
        ]
        .concat(),
    );
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    dir
}

fn explore(dir: &TestDir, recovery: &str, options: &[&str]) -> Completed {
    let recover = format!("./list {{pm}} {recovery}");
    let crash = ["crash", "trace", "--recover", &recover];
    let exhaustive = ["--strategy", "exhaustive", "--out", "out"];
    dir.brownout(&[&crash[..], &exhaustive, options].concat())
}

fn exploration(dir: &TestDir) -> Value {
    run_file(&dir.path("out"))["crash"]["exploration"].clone()
}

#[test]
fn a_correct_program_is_explored_to_the_end_once_for_each_behaviour() {
    let dir = recorded(&["20"]);
    let run = explore(&dir, "check", &[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let explored = exploration(&dir);
    // Recovery finds a list of 0 to 20 nodes, whatever a crash has lost of the node that is not in the list.
    assert_eq!(explored["executions"], 21, "{explored}");
    // Before each flush, of which there are two for each node, and at the end.
    assert_eq!(explored["crash_times"]["of"], 41, "{explored}");
    assert_eq!(explored["crash_times"]["tried"], 41);
    assert_eq!(explored["waiting"], 0);
    assert!(
        run.stderr.contains("in all states (41 of 41 crash times"),
        "{}",
        run.stderr
    );
    let crash = &run_file(&dir.path("out"))["crash"];
    assert_eq!(
        (&crash["complete"], &crash["strategy"]),
        (&true.into(), &"exhaustive".into())
    );
}

#[test]
fn a_store_that_may_be_lost_although_the_program_stored_it_first_is_found() {
    let dir = recorded(&["3", "late"]);
    let prefix = ["crash", "trace", "--recover", "./list {pm} check"];
    let in_order = dir.brownout(&[&prefix[..], &["--strategy", "prefix"]].concat());
    assert_eq!(in_order.status, Some(0), "{}", in_order.stderr);
    let run = explore(&dir, "check", &[]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let findings = findings(&dir.path("out"));
    assert_eq!(crashes(&findings).len(), 1, "{findings:?}");
    let failure = recovery_failure(&findings);
    assert_eq!(
        functions(failure, "store that is missing")[0],
        "put",
        "{findings:?}"
    );
    assert_eq!(run_file(&dir.path("out"))["crash"]["complete"], true);
    // The token has the choices.
    let token = failure["replay"].as_str().unwrap();
    let replayed = dir.brownout(&["replay", "trace", token]);
    assert_eq!(replayed.status, Some(1), "{}", replayed.stderr);
    for artefact in ["junit.xml", "report.sarif"] {
        let text = fs::read_to_string(dir.path("out").join(artefact)).unwrap();
        assert!(text.contains("recovery-failed"), "{artefact}: {text}");
    }
}

/// The findings of lint are tried once everything is explored.
#[test]
fn what_lint_suspects_is_confirmed_or_not() {
    let confirmed = |kind: &str, recovery: &str| {
        let dir = TestDir::with("crash/list.c", &["-g"]);
        let check = ["check", "--strategy", "exhaustive", "--out", "out"];
        let recover = format!("./list {{pm}} {recovery}");
        let program = [
            "--recover",
            &recover,
            "--",
            "./list",
            "pool",
            "put",
            "3",
            kind,
        ];
        let run = dir.brownout(&[&check[..], &program].concat());
        let findings = findings(&dir.path("out"));
        let late = findings.iter();
        let late = late.filter(|finding| finding["rule"] == "delayed-persist");
        let confirmed: Vec<Value> = late.map(|finding| finding["confirmed"].clone()).collect();
        assert!(!confirmed.is_empty(), "{}", run.stderr);
        assert_eq!(run_file(&dir.path("out"))["crash"]["complete"], true);
        confirmed
    };
    let harmful = confirmed("late", "check");
    assert!(harmful.contains(&Value::Bool(true)), "{harmful:?}");
    // This recovery follows the list without looking at the keys, and always passes.
    let harmless = confirmed("late", "sum");
    assert!(harmless.iter().all(|known| *known == false), "{harmless:?}");
}

#[test]
fn an_exploration_that_was_stopped_says_so_and_is_resumed() {
    let dir = recorded(&["20"]);
    let stopped = explore(&dir, "check", &["--time-limit", "1ms"]);
    assert_eq!(stopped.status, Some(3), "{}", stopped.stderr);
    let run = run_file(&dir.path("out"));
    assert_eq!(run["crash"]["complete"], false, "{run}");
    let resumed = explore(&dir, "check", &["--resume"]);
    assert_eq!(resumed.status, Some(0), "{}", resumed.stderr);
    assert_eq!(exploration(&dir)["crash_times"]["tried"], 41);
    let again = explore(&dir, "check", &["--resume"]);
    assert_eq!(again.status, Some(0), "{}", again.stderr);
    let explored = exploration(&dir);
    assert_eq!(
        explored["executions"], 21,
        "nothing is run twice: {explored}"
    );
    assert_eq!(run_file(&dir.path("out"))["reasons"], Value::Array(vec![]));
}

#[test]
fn a_recovery_that_depends_on_chance_is_detected() {
    let dir = recorded(&["20"]);
    let run = explore(&dir, "luck", &[]);
    assert_eq!(run.status, Some(3), "{}", run.stderr);
    assert!(
        run.stderr
            .contains("behaves differently after reading the same bytes"),
        "{}",
        run.stderr
    );
    let junit = fs::read_to_string(dir.path("out/junit.xml")).unwrap();
    assert!(
        junit.contains("not all behaviours of recovery were explored"),
        "{junit}"
    );
}

#[test]
fn options_that_leave_crashes_out_are_refused() {
    let dir = recorded(&["2"]);
    for option in [
        ["--occurrences", "2"],
        ["--granularity", "store"],
        ["--shard", "1/2"],
    ] {
        let run = explore(&dir, "check", &option);
        assert_eq!(run.status, Some(2), "{option:?}: {}", run.stderr);
        let message = format!("{} cannot be used with --strategy exhaustive", option[0]);
        assert!(run.stderr.contains(&message), "{}", run.stderr);
    }
}

#[test]
fn too_many_combinations_are_sampled_and_the_run_says_so() {
    let dir = recorded(&["16", "batch"]);
    let run = explore(&dir, "sum", &[]);
    assert_eq!(run.status, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("states were sampled"), "{}", run.stderr);
    let crash = &run_file(&dir.path("out"))["crash"];
    assert_eq!(crash["complete"], false, "{crash}");
    // Before the sync, all 16 lines are open. The two times after it are explored.
    let exploration = &crash["exploration"];
    assert_eq!(exploration["crash_times"]["of"], 3, "{exploration}");
    assert_eq!(exploration["crash_times"]["tried"], 2, "{exploration}");
    let points = exploration["points"].as_array().unwrap();
    let unfinished: Vec<&Value> = points
        .iter()
        .filter(|point| point["crash_times"]["tried"] == 0)
        .collect();
    assert_eq!(unfinished.len(), 1, "{exploration}");
    assert_eq!(unfinished[0]["sampled"], 1, "{exploration}");
    let name = unfinished[0]["failure_point"].as_str().unwrap();
    assert!(name.contains("list.c"), "{name}");
    // Both ends of what a crash can leave are tried at all times.
    for ends in ["every_store", "fewest_stores"] {
        assert_eq!(exploration[ends]["of"], 3, "{exploration}");
        assert_eq!(exploration[ends]["tried"], 3, "{exploration}");
    }
    let line = format!("  {name}: 0 of 1 crash time finished, 1 sampled; ");
    assert!(run.stdout.contains(&line), "{}", run.stdout);
    let junit = fs::read_to_string(dir.path("out/junit.xml")).unwrap();
    assert!(junit.contains("states were sampled"), "{junit}");
}

#[test]
fn samples_have_each_line_lost_alone() {
    let dir = recorded(&["16", "batch"]);
    let run = explore(&dir, "gap", &["--no-narrowing"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert_eq!(crashes(&findings(&dir.path("out")))[0].0, "recovery-failed");
}

#[test]
fn the_states_of_a_failure_point_can_be_limited() {
    let dir = recorded(&["20"]);
    let run = explore(&dir, "check", &["--max-states", "3"]);
    assert_eq!(run.status, Some(3), "{}", run.stderr);
    assert!(
        run.stderr.contains("--max-states 3 was reached"),
        "{}",
        run.stderr
    );
    let executions = exploration(&dir)["executions"].as_u64().unwrap();
    assert!(executions <= 6, "two failure points: {executions}");
    let resumed = explore(&dir, "check", &["--resume"]);
    assert_eq!(resumed.status, Some(0), "{}", resumed.stderr);
    let crash = ["crash", "trace", "--recover", "./list {pm} check"];
    let other = dir.brownout(&[&crash[..], &["--max-states", "3"]].concat());
    assert_eq!(other.status, Some(2), "{}", other.stderr);
    assert!(other.stderr.contains("has no effect"), "{}", other.stderr);
}

#[test]
fn check_explores_what_it_records() {
    let dir = TestDir::with("crash/list.c", &["-g"]);
    let strategy = ["check", "--strategy", "exhaustive", "--out", "out"];
    let program = [
        "--recover",
        "./list {pm} check",
        "--",
        "./list",
        "pool",
        "put",
        "4",
    ];
    let run = dir.brownout(&[&strategy[..], &program].concat());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(exploration(&dir)["executions"], 5);
}

#[test]
fn recoveries_with_one_start_are_copies_of_its_processes() {
    let dir = recorded(&["20"]);
    let run = explore(&dir, "check", &["--jobs", "1"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let explored = exploration(&dir);
    assert_eq!(explored["executions"], 21, "{explored}");
    // One starts, and four check whether a new process does the same.
    assert_eq!(explored["copies"], 16, "{explored}");
    assert_eq!(explored["run_anew"], Value::Null, "{explored}");
}

#[test]
fn a_store_of_an_earlier_operation_that_is_lost_is_named() {
    let dir = TestDir::with("crash/list.c", &["-g"]);
    let strategy = ["check", "--op", "put", "--strategy", "exhaustive"];
    let recover = ["--out", "out", "--recover", "./list {pm} done"];
    let program = ["--", "./list", "pool", "put", "3", "never"];
    let run = dir.brownout(&[&strategy[..], &recover, &program].concat());
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let findings = findings(&dir.path("out"));
    let crashes: Vec<&Value> = findings
        .iter()
        .filter(|finding| finding["rule"] == "recovery-failed")
        .collect();
    assert!(!crashes.is_empty(), "{findings:?}");
    for crash in crashes {
        assert_eq!(functions(crash, "store that is missing")[0], "put");
    }
}

#[test]
fn each_profile_has_its_own_crash_times() {
    let dir = recorded(&["3"]);
    // The node that is not in the list can be lost, or not; recovery does not look at it.
    for (profile, crash_times) in [("adr", 7), ("eadr", 9), ("gpf", 9), ("msync", 1)] {
        let run = explore(&dir, "check", &["--model", profile]);
        assert_eq!(run.status, Some(0), "{profile}: {}", run.stderr);
        let explored = exploration(&dir);
        assert_eq!(explored["crash_times"]["of"], crash_times, "{profile}");
        assert_eq!(explored["executions"], 4, "{profile}: {explored}");
    }
}

/// Records a file whose bytes change otherwise than by stores under its name, and explores it.
fn explore_replaced(mode: &str, recovery: &str, options: &[&str]) -> (TestDir, Completed) {
    let dir = TestDir::with("crash/replaced.c", &["-g"]);
    let target = ["--", "./replaced", "pool", mode];
    let run = dir.brownout(&[&["record", "-q", "-o", "trace"], &target[..]].concat());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let recover = format!("./replaced pool {recovery}");
    let crash = ["crash", "trace", "--recover", &recover];
    let exhaustive = ["--strategy", "exhaustive", "--out", "out"];
    let explored = dir.brownout(&[&crash[..], &exhaustive, options].concat());
    (dir, explored)
}

#[test]
fn stores_made_before_a_file_was_renamed_may_be_lost() {
    let (dir, run) = explore_replaced("rename", "check", &[]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert_eq!(crashes(&findings(&dir.path("out"))).len(), 1);
}

#[test]
fn bytes_that_were_cut_off_are_explored() {
    let (dir, run) = explore_replaced("truncate", "check", &[]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert_eq!(crashes(&findings(&dir.path("out"))).len(), 1);
}

#[test]
fn stores_that_are_lost_before_a_file_is_cut_or_renamed_are_explored() {
    for (mode, recovery, kind) in [
        ("cut", "uncut", "this change of the file's size"),
        ("move", "unmoved", "this rename"),
    ] {
        let (dir, run) = explore_replaced(mode, recovery, &["--no-narrowing"]);
        assert_eq!(run.status, Some(1), "{mode}: {}", run.stderr);
        let findings = findings(&dir.path("out"));
        let message = recovery_failure(&findings)["message"].as_str().unwrap();
        assert!(message.contains(kind), "{mode}: {message}");
    }
}

#[test]
fn a_recovery_that_does_not_end_is_not_called_random() {
    let limit = ["--recover-time-limit", "500ms"];
    let (dir, run) = explore_replaced("rename", "hang", &limit);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let findings = findings(&dir.path("out"));
    assert_eq!(recovery_failure(&findings)["rule"], "recovery-hung");
    let coverage = &run_file(&dir.path("out"))["crash"];
    assert_eq!(coverage["limit_reached"], false, "{coverage}");
    assert!(
        !run.stderr
            .contains("behaves differently after reading the same bytes"),
        "{}",
        run.stderr
    );
    let recover = ["--recover", "./replaced pool hang", "--resume"];
    let resume = ["crash", "trace", "--strategy", "exhaustive", "--out", "out"];
    let resumed = dir.brownout(&[&resume[..], &recover, &limit].concat());
    assert_eq!(resumed.status, Some(1), "{}", resumed.stderr);
    assert!(
        !resumed.stderr.contains("--resume continues"),
        "{}",
        resumed.stderr
    );
    let again = &run_file(&dir.path("out"))["crash"];
    assert_eq!(again["exploration"]["waiting"], 0, "{again}");
}
