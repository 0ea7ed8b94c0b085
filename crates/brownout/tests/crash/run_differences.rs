//! `brownout diff` of crash tests that were not the same test.

use std::fs;

use crate::TestDir;

/// Checks a log whose `append` forgets to flush something.
fn check(dir: &TestDir, out: &str, recovery: &str, options: &[&str]) {
    let _ = fs::remove_file(dir.path("pool"));
    let mut arguments = vec!["check", "--out", out, "--recover", recovery];
    arguments.extend(options);
    arguments.extend(["--", "./append", "pool", "number"]);
    dir.brownout(&arguments);
}

#[test]
fn another_crash_test_does_not_decide_what_it_can_hide() {
    let dir = TestDir::with("crash/append.c", &["-g"]);
    let recovery = "./append {pm} recover";
    // Without the rules of lint, recovery alone shows the mistake.
    let rules = "[rules]\nmissing-flush = \"off\"\nunpersisted-target = \"off\"\ntransient-data = \"off\"\n\
                 delayed-persist = \"off\"\n";
    fs::write(dir.path("brownout.toml"), rules).unwrap();
    check(&dir, "before", recovery, &[]);
    let same = dir.brownout(&["diff", "before", "before"]);
    assert_eq!(same.status, Some(0), "{}", same.stderr);
    assert!(!same.stderr.contains("differ"), "{}", same.stderr);

    let differing: [(&str, &[&str], &str); 2] = [
        (
            "sha1sum {pm}",
            &[],
            "recovery changed from `./append {pm} recover` to `sha1sum {pm}`",
        ),
        (
            recovery,
            &["--in-function", "main"],
            "crashes are tried at fewer or other failure points",
        ),
    ];
    for (recovery, options, why) in differing {
        check(&dir, "after", recovery, options);
        let compared = dir.brownout(&["diff", "before", "after"]);
        assert!(compared.stderr.contains(why), "{}", compared.stderr);
        assert!(compared.stdout.contains(" 0 gone"), "{}", compared.stdout);
    }
    check(&dir, "after", "sha1sum {pm}", &[]);
    let compared = dir.brownout(&["diff", "before", "after"]);
    assert_eq!(compared.status, Some(3), "{}", compared.stdout);
    assert!(compared.stdout.contains("undecided"), "{}", compared.stdout);

    // A test without filters tries what one with filters has tried.
    check(&dir, "after", recovery, &["--in-function", "main"]);
    let back = dir.brownout(&["diff", "after", "before"]);
    assert!(!back.stderr.contains("differ"), "{}", back.stderr);
}
