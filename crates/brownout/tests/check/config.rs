//! `brownout.toml`.

use std::fs;
use std::process::Command;

use crate::{TestDir, bugs, rules_of};

#[test]
fn options_come_from_the_file() {
    let dir = TestDir::new();
    dir.write(
        "brownout.toml",
        "out = 'results'\nsuppressions = ['accepted.toml']\n[preset.ci]\nformat = 'json'\n",
    );
    dir.write(
        "accepted.toml",
        "[[suppression]]\nrule = 'missing-flush'\nreason = 'r'\n",
    );
    let run = dir.check(&["--fail-on", "performance"], &["last", "fence"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let findings = crate::findings(&dir.path("results"));
    assert_eq!(bugs(&findings), [] as [&str; 0]);
    assert_eq!(rules_of(&findings, "performance"), ["redundant-fence"]);
    let named = format!("options from {}", dir.path("brownout.toml").display());
    assert!(run.stderr.contains(&named), "{}", run.stderr);
    let run = dir.check(&["--preset", "ci"], &["fence"]);
    assert!(run.stdout.contains("{\"id\":"), "{}", run.stdout);
    let former = dir.check(&["--profile", "ci"], &["fence"]);
    assert!(former.stdout.contains("{\"id\":"), "{}", former.stdout);
    let run = dir.check(&["--preset", "ci", "--format", "human"], &["fence"]);
    assert_eq!(run.stdout, "counted\n", "the command line goes first");
}

#[test]
fn the_file_is_looked_for_upwards() {
    let dir = TestDir::new();
    dir.write("brownout.toml", "suppressions = ['accepted.toml']\n");
    dir.write(
        "accepted.toml",
        "[[suppression]]\nrule = '*'\nreason = 'r'\n",
    );
    fs::create_dir(dir.path("sub")).unwrap();
    let arguments = ["check", "--", "../counter", "pool", "last"];
    let output = dir
        .command(&arguments)
        .current_dir(dir.path("sub"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(dir.path("sub/brownout.out").exists());
}

#[test]
fn mistakes_in_the_file_are_named_with_their_line() {
    let dir = TestDir::new();
    dir.write("brownout.toml", "# options\nmodle = 'adr'\n");
    for arguments in [&["check", "--", "true"][..], &["lint", "trace"]] {
        let run = dir.brownout(arguments);
        assert_eq!(run.status, Some(2));
        assert!(
            run.stderr
                .contains("brownout.toml`, line 2: unknown field `modle`"),
            "{}",
            run.stderr
        );
    }
    for (text, hint) in [
        (
            "recover = 'true'\n",
            "`recover` belongs in the section [crash]",
        ),
        ("missing-flush = 'off'\n", "belongs in the section [rules]"),
        (
            "[crash]\nout = 'results'\n",
            "belongs at the beginning of the file",
        ),
    ] {
        dir.write("brownout.toml", text);
        let run = dir.check(&[], &[]);
        assert_eq!(run.status, Some(2));
        assert!(run.stderr.contains(hint), "{}", run.stderr);
    }
    dir.write("other.toml", "");
    let run = dir.check(&["--config", "other.toml"], &[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let run = dir.check(&["--config", "missing.toml"], &[]);
    assert_eq!(run.status, Some(2));
}

#[test]
fn oracles_check_the_programs_own_demands() {
    let dir = TestDir::new();
    dir.write(
        "brownout.toml",
        "[[oracle]]\nid = 'steps-in-step'\nsummary = 'steps are counted in step'\n\
         stores = { file = 'pool', offset = '64..72' }\nonly-inside = ['step']\n\
         [[oracle]]\nid = 'value-first'\nsummary = 'the value comes first'\n\
         persisted = { offset = '0..8' }\nbefore = { offset = '64..' }\n",
    );
    let run = dir.check(&[], &["fence"]);
    let findings = crate::findings(&dir.path("brownout.out"));
    assert_eq!(bugs(&findings), [] as [&str; 0], "{}", run.stderr);

    let run = dir.check(&[], &["last"]);
    assert_eq!(run.status, Some(1));
    let findings = crate::findings(&dir.path("brownout.out"));
    assert_eq!(bugs(&findings), ["missing-flush", "steps-in-step"]);
    assert!(
        run.stderr
            .contains("steps are counted in step: stored outside"),
        "{}",
        run.stderr
    );
    // The summary advises to ask for an explanation.
    let listed = dir.brownout(&["explain"]).stdout;
    assert!(listed.contains("\nvalue-first "), "{listed}");
    for (oracle, fix) in [
        ("steps-in-step", "add the function"),
        ("value-first", "execute a fence"),
    ] {
        let explained = dir.brownout(&["explain", oracle]);
        assert_eq!(explained.status, Some(0), "{}", explained.stderr);
        assert!(explained.stdout.contains(fix), "{}", explained.stdout);
    }
    let misspelt = dir.brownout(&["explain", "valu-first"]);
    assert_eq!(misspelt.status, Some(2));
    let hint = "did you mean `value-first`?";
    assert!(misspelt.stderr.contains(hint), "{}", misspelt.stderr);
    let elsewhere = dir
        .command(&["explain", "value-first"])
        .current_dir("/")
        .output();
    assert_eq!(elsewhere.unwrap().status.code(), Some(2));
    let config = dir.path("brownout.toml");
    let named = ["explain", "value-first", "--config"];
    let named = dir.command(&named).arg(config).current_dir("/").status();
    assert_eq!(named.unwrap().code(), Some(0));
    // What is wrong in the file does not concern the rules of brownout.
    dir.write("brownout.toml", "modle = 'adr'\n");
    assert_eq!(dir.brownout(&["explain", "missing-flush"]).status, Some(0));
    assert_eq!(dir.brownout(&["explain", "value-first"]).status, Some(2));
}

#[test]
fn the_example_project_reports_what_its_comments_say() {
    let dir = TestDir::new();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    for name in ["kvlog.c", "brownout.toml", "accepted.toml"] {
        fs::copy(format!("{examples}/{name}"), dir.path(name)).unwrap();
    }
    let compiled = Command::new("cc")
        .args(["-g", "-o", "kvlog", "kvlog.c"])
        .current_dir(dir.directory.path())
        .status();
    assert!(compiled.unwrap().success());
    let run = dir.brownout(&["check", "--", "./kvlog", "store", "put", "50"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(!run.stderr.contains("unused suppression"), "{}", run.stderr);
    let found = dir.findings();
    let rules: Vec<&str> = found
        .iter()
        .filter_map(|finding| finding["rule"].as_str())
        .collect();
    assert!(rules.contains(&"missing-flush"), "{rules:?}");
    for absent in [
        "fence-orders-many",
        "flush-covers-many",
        "entry-before-end",
        "entries-have-owners",
    ] {
        assert!(!rules.contains(&absent), "{absent} is among {rules:?}");
    }
    let config = dir.read("brownout.toml").replace("\"erase\", ", "");
    dir.write("brownout.toml", &config);
    dir.brownout(&["check", "--", "./kvlog", "store", "put", "50"]);
    let found = dir.findings();
    let owners = found
        .iter()
        .find(|finding| finding["rule"] == "entries-have-owners");
    let frames = &owners.expect("erase is no owner any more")["stacks"][0]["frames"];
    assert_eq!(frames[0]["function"], "erase");
}
