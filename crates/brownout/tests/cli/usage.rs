//! Arguments, help and exit codes.

use std::fs::File;

use crate::traces::pool_and_semaphore;
use crate::{CommandResult, brownout, clean, command};

#[test]
fn wrong_arguments_have_exit_code_2() {
    let cases: [&[&str]; 6] = [
        &[],
        &["frobnicate"],
        &["stat"],
        &["image", "trace"],
        &["dump", "trace", "--kind", "nonsense"],
        &["image", "trace", "-o", "out", "--at", "noon"],
    ];
    for arguments in cases {
        let run = brownout(arguments);
        assert_eq!(run.status, Some(2), "{arguments:?}");
        assert_eq!(run.stdout, "", "{arguments:?}");
    }
}

#[test]
fn the_help_of_each_command_has_an_example() {
    for name in [
        "check", "record", "lint", "report", "explain", "stat", "dump", "image", "demo",
    ] {
        let help = clean(&[name, "--help"]);
        assert!(help.contains("Example"), "{name}");
        assert!(help.contains(&format!("  brownout {name}")), "{name}");
    }
}

#[test]
fn the_exit_codes_are_listed() {
    let help = clean(&["--help"]);
    for code in [
        " 0  no finding reaches --fail-on",
        " 1  a finding reaches --fail-on",
        " 3  nothing persistent was seen",
        "70  internal error",
    ] {
        assert!(help.contains(code), "{code}");
    }
}

#[test]
fn an_invalid_pattern_is_reported() {
    let (_directory, path) = pool_and_semaphore(&[]).finish();
    let run = brownout(&["stat", path.to_str().unwrap(), "--pm", "/mnt/["]);
    assert_eq!(run.status, Some(2));
    assert!(
        run.stderr.contains("the pattern /mnt/[ is not valid"),
        "{}",
        run.stderr
    );
}

#[test]
fn output_that_cannot_be_written_is_reported() {
    let (_directory, path) = pool_and_semaphore(&[]).finish();
    let run: CommandResult = command(&["dump", path.to_str().unwrap()])
        .stdout(File::options().write(true).open("/dev/full").unwrap())
        .output()
        .unwrap()
        .into();
    assert_eq!(run.status, Some(2));
    assert!(
        run.stderr.contains("cannot write to standard output"),
        "{}",
        run.stderr
    );
}
