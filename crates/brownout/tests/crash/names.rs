//! Functions, files and modules as users name them: every spelling is accepted, and one that names nothing is an error.

use std::fs;

use serde_json::Value;

use crate::TestDir;

const PUT: &str = "_ZN2kv3LogIlE3putEl";

/// Every spelling of one function.
const SPELLINGS: [&str; 7] = [
    PUT,
    "kv::Log<long>::put(long)",
    "kv::Log<long>::put",
    "kv::Log::put",
    "Log::put",
    "put",
    "*Log*::pu?",
];

fn names() -> TestDir {
    TestDir::with("crash/names.cc", &["-g"])
}

fn check(dir: &TestDir, options: &[&str]) -> crate::Completed {
    // There is none the first time.
    let _ = fs::remove_file(dir.path("pool"));
    let mut arguments = vec!["check", "--no-narrowing", "--recover", "./names {pm} check"];
    arguments.extend(options);
    arguments.extend(["--", "./names", "pool", "put", "4"]);
    dir.brownout(&arguments)
}

fn record(dir: &TestDir, options: &[&str]) -> crate::Completed {
    // There is none the first time.
    let _ = fs::remove_file(dir.path("pool"));
    let mut arguments = vec!["record", "-o", "trace"];
    arguments.extend(options);
    arguments.extend(["--", "./names", "pool", "put", "4"]);
    let run = dir.brownout(&arguments);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    run
}

fn crash(dir: &TestDir, options: &[&str]) -> crate::Completed {
    let mut arguments = vec![
        "crash",
        "trace",
        "--no-narrowing",
        "--recover",
        "./names {pm} check",
    ];
    arguments.extend(options);
    dir.brownout(&arguments)
}

/// The failure points that a filter leaves.
fn points(dir: &TestDir, options: &[&str]) -> usize {
    let mut arguments = vec!["stat", "trace", "--failure-points", "--format", "json"];
    arguments.extend(options);
    let run = dir.brownout(&arguments);
    assert_eq!(run.status, Some(0), "{options:?}: {}", run.stderr);
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    json["failure_points"].as_array().unwrap().len()
}

#[test]
fn a_function_is_accepted_in_every_spelling() {
    let dir = names();
    record(&dir, &["--watch", "put", "--watch", "kv::open_pool"]);
    let all = points(&dir, &[]);
    for spelling in SPELLINGS {
        assert_eq!(
            points(&dir, &["--in-function", spelling]),
            all,
            "{spelling}"
        );
        let after = points(&dir, &["--after", spelling]);
        assert!((1..=all).contains(&after), "{spelling}: {after}");
        let run = crash(&dir, &["--op", spelling]);
        assert_eq!(run.status, Some(0), "{spelling}: {}", run.stderr);
    }
    for spelling in ["kv::Log<long>::put_pair", "put_*"] {
        assert!(
            points(&dir, &["--in-function", spelling]) < all,
            "{spelling}"
        );
    }
    // What is watched is found in the program under any name, too.
    for spelling in SPELLINGS {
        let run = record(&dir, &["--watch", spelling]);
        assert!(!run.stderr.contains("--watch"), "{}", run.stderr);
        let dump = dir.brownout(&["dump", "trace"]).stdout;
        assert_eq!(
            dump.matches(&format!(" {PUT}(")).count(),
            4,
            "{spelling}: {dump}"
        );
    }
}

#[test]
fn filters_of_one_kind_unite_and_of_different_kinds_intersect() {
    let dir = names();
    record(&dir, &[]);
    let pair = points(&dir, &["--in-function", "put_pair"]);
    let put = points(&dir, &["--in-function", "Log::put"]);
    assert!(0 < pair && pair < put);
    assert_eq!(
        points(
            &dir,
            &["--in-function", "put_pair", "--in-function", "Log::put"]
        ),
        put
    );
    assert_eq!(
        points(
            &dir,
            &["--in-function", "put_pair", "--in-file", "names.cc"]
        ),
        pair
    );
    assert_eq!(
        points(&dir, &["--in-function", "put_pair", "--in-module", "names"]),
        pair
    );
    let help = dir.brownout(&["crash", "--help"]).stdout;
    // Where its lines break does not matter.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("at least one value matches"), "{help}");
}

#[test]
fn a_filter_that_matches_nothing_is_an_error_with_suggestions() {
    let dir = names();
    for (option, name, suggestion) in [
        ("--in-function", "Log::putt", "`kv::Log<long>::put(long)`"),
        ("--in-file", "name.cc", "names.cc`"),
        ("--in-module", "libname.so", "names`"),
        ("--after", "kv::opn_pool", "`kv::open_pool(char const*)`"),
        ("--op", "putpair", "put_pair(long)`"),
    ] {
        let run = check(&dir, &[option, name]);
        assert_eq!(run.status, Some(2), "{}", run.stderr);
        let named = format!("{option} {name}");
        for text in [&named[..], suggestion] {
            assert!(run.stderr.contains(text), "{}", run.stderr);
        }
        let file: Value = serde_json::from_str(&dir.read("brownout.out/run.json")).unwrap();
        assert_eq!(
            (&file["verdict"], &file["exit_code"]),
            (&"error".into(), &2.into())
        );
        assert!(dir.read("brownout.out/junit.xml").contains("<error"));
        let sarif = dir.read("brownout.out/report.sarif");
        assert!(sarif.contains("\"executionSuccessful\":false"), "{sarif}");
    }
    let run = check(&dir, &["--in-function", "put", "--in-function", "misspelt"]);
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    let run = check(&dir, &["--after", "main"]);
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    assert!(
        run.stderr.contains("no failure point follows"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_function_without_calls_is_explained_by_each_command() {
    let dir = names();
    let run = check(&dir, &["--op", "seal"]);
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    assert!(
        run.stderr
            .contains("the compiler has inlined this function"),
        "{}",
        run.stderr
    );
    let run = check(&dir, &["--op", "put", "--op", "never_called"]);
    assert!(
        run.stderr.contains("was never called in this run"),
        "{}",
        run.stderr
    );
    assert_eq!(run.status, Some(2));

    let run = record(&dir, &["--watch", "kv::seal", "--watch", "kv::nothing"]);
    assert!(
        run.stderr
            .contains("--watch kv::seal: the compiler has inlined"),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("--watch kv::nothing: no module"),
        "{}",
        run.stderr
    );
    let run = crash(&dir, &["--op", "put"]);
    assert_eq!(run.status, Some(2), "{}", run.stderr);
    assert!(
        run.stderr.contains("recorded without --watch put"),
        "{}",
        run.stderr
    );
    let run = crash(&dir, &["--op", "seal"]);
    assert!(
        run.stderr
            .contains("the compiler has inlined this function"),
        "{}",
        run.stderr
    );
}

#[test]
fn several_functions_perform_operations() {
    let dir = names();
    let recover =
        "./names {pm} check && echo $BROWNOUT_OP >> /dev/stderr && test $BROWNOUT_OP -le 3";
    let run = check(&dir, &["--op", "put_pair", "--op", "Log::put"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    // One pair, and two more: a call within a call is part of it.
    let options = ["--recover", recover, "--op", "put_pair", "--op", "Log::put"];
    let _ = fs::remove_file(dir.path("pool"));
    let mut arguments = vec!["check", "--no-narrowing"];
    arguments.extend(options);
    arguments.extend(["--", "./names", "pool", "put", "4"]);
    let run = dir.brownout(&arguments);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    fs::write(
        dir.path("brownout.toml"),
        "[crash]\nrecover = './names {pm} check'\nop = ['put_pair', 'Log::put']\n",
    )
    .unwrap();
    let _ = fs::remove_file(dir.path("pool"));
    let run = dir.brownout(&[
        "check",
        "--no-narrowing",
        "--",
        "./names",
        "pool",
        "put",
        "4",
    ]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
}

#[test]
fn what_can_never_work_is_noticed_before_the_program_runs() {
    let dir = names();
    for (options, why) in [
        (
            &["--recover", ""][..],
            "cannot use --recover: the command is empty",
        ),
        (&["--recover", "./nowhere {pm}"], "nowhere` does not exist"),
        (
            &["--recover", "no-such-program x"],
            "there is no command `no-such-program`",
        ),
        (
            &["--recover", "true", "--client", "./nobody"],
            "cannot use --client",
        ),
        (
            &["--recover", "./names {pool} check"],
            "unknown placeholder `{pool}`",
        ),
        (&["--op", "put"], "--op: no effect without --recover"),
        (
            &["--jobs", "2", "--in-file", "x"],
            "--jobs, --in-file: no effect without --recover",
        ),
        (
            &["--recover", "true", "--recover-ready", "tcp:80"],
            "--recover-ready has no effect",
        ),
    ] {
        let mut arguments = vec!["check"];
        arguments.extend(options);
        arguments.extend(["--", "./names", "pool", "put", "4"]);
        let run = dir.brownout(&arguments);
        assert_eq!(run.status, Some(2), "{options:?}: {}", run.stderr);
        assert!(run.stderr.contains(why), "{}", run.stderr);
        assert!(!dir.path("pool").exists(), "{options:?}: the program ran");
    }
}
