//! `record --coverage`: the counts are those of gcov, and are exact across threads, signals, processes and SIGKILL.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/coverage")
        .join(name)
}

fn compile(directory: &Path, name: &str, flags: &[&str], to: &str) {
    let mut command = Command::new("gcc");
    command.args(["-g", "-O0", "-pthread"]).args(flags);
    command.arg(source(name)).args(["-o", to]);
    let built = command.current_dir(directory).status().unwrap();
    assert!(built.success(), "{name} cannot be built");
}

/// Records `./program` with coverage in `format`; returns the coverage file.
fn record(directory: &Path, format: &str) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_brownout"))
        .args(["record", "-o", "trace", "--coverage", "coverage"])
        .args(["--coverage-format", format, "--", "./program"])
        .current_dir(directory)
        .output()
        .unwrap();
    let text = fs::read_to_string(directory.join("coverage"));
    (output, text.unwrap())
}

/// Numbers after `field` in the record of a source file of an lcov tracefile.
fn fields<'a>(lcov: &'a str, file: &str, field: &str) -> Vec<Vec<&'a str>> {
    let records = lcov.split("end_of_record");
    let of_file = |record: &&str| {
        let path = record.lines().find_map(|line| line.strip_prefix("SF:"));
        path.is_some_and(|path| Path::new(path).ends_with(file))
    };
    let mut record = records.filter(of_file);
    let lines = record.next().unwrap_or_default().lines();
    lines
        .filter_map(|line| Some(line.strip_prefix(field)?.split(',').collect()))
        .collect()
}

fn line_counts(lcov: &str, file: &str) -> BTreeMap<u32, u64> {
    let lines = fields(lcov, file, "DA:");
    lines
        .iter()
        .map(|line| (line[0].parse().unwrap(), line[1].parse().unwrap()))
        .collect()
}

/// The counts that gcov has, of an instrumented build of the same source.
fn gcov_counts(directory: &Path, name: &str) -> BTreeMap<u32, u64> {
    compile(directory, name, &["--coverage"], "instrumented");
    let run = Command::new("./instrumented")
        .current_dir(directory)
        .output();
    assert!(run.unwrap().status.success());
    let notes = format!("instrumented-{}", name.replace(".c", ".gcda"));
    let gcov = Command::new("gcov")
        .args(["--stdout", &notes])
        .current_dir(directory)
        .output();
    let text = String::from_utf8(gcov.unwrap().stdout).unwrap();
    let counts = text.lines().filter_map(|line| {
        let mut columns = line.split(':');
        let count = columns.next()?.trim().trim_end_matches('*');
        let line = columns
            .next()?
            .trim()
            .parse()
            .ok()
            .filter(|&line| line > 0)?;
        let never = count.starts_with('#');
        let count = if never { Some(0) } else { count.parse().ok() };
        Some((line, count?))
    });
    counts.collect()
}

#[test]
fn lines_are_executed_as_often_as_gcov_counts() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    compile(directory, "branches.c", &[], "program");
    let (output, lcov) = record(directory, "lcov");
    assert!(output.status.success());
    let counted = line_counts(&lcov, "branches.c");
    let expected = gcov_counts(directory, "branches.c");
    // Labels have no code of their own; closing braces have none for gcov.
    let common: Vec<_> = (expected.iter())
        .filter(|(line, _)| counted.contains_key(line))
        .collect();
    assert!(common.len() > 35, "{expected:?} {counted:?}");
    for (line, count) in common {
        assert_eq!(counted[line], *count, "line {line}");
    }
}

#[test]
fn branches_and_functions_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    compile(directory, "branches.c", &[], "program");
    let (_, lcov) = record(directory, "lcov");
    let entries = fields(&lcov, "branches.c", "FNDA:");
    assert!(entries.contains(&vec!["100", "collatz"]), "{entries:?}");
    assert!(entries.contains(&vec!["0", "never"]), "{entries:?}");
    // `if (n == 50)`: not taken once out of 100 times, whichever way it is compiled.
    let line = marked_line("branches.c", "n == 50").to_string();
    let branches = fields(&lcov, "branches.c", "BRDA:");
    let mut ways: Vec<_> = branches
        .iter()
        .filter(|way| way[0] == line)
        .map(|way| way[3])
        .collect();
    ways.sort_unstable();
    assert_eq!(ways, ["1", "99"]);

    let (_, table) = record(directory, "functions");
    let row = table
        .lines()
        .find(|row| row.contains("\tcollatz\t"))
        .unwrap();
    let columns: Vec<_> = row.split('\t').collect();
    assert_eq!(columns[0], "100");
    assert_eq!(columns[1], columns[2], "all of it was executed");
}

/// The line of a source file that contains `text`.
fn marked_line(name: &str, text: &str) -> u32 {
    let source = fs::read_to_string(source(name)).unwrap();
    let found = source.lines().position(|line| line.contains(text));
    found.unwrap() as u32 + 1
}

#[test]
fn counts_are_exact_across_threads_signals_processes_and_libraries() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    compile(directory, "processes.c", &[], "program");
    compile(directory, "library.c", &["-shared", "-fPIC"], "library.so");
    let (output, lcov) = record(directory, "lcov");
    // The target kills itself; nothing that it counted is lost.
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&output.status),
        Some(9)
    );
    let counted = line_counts(&lcov, "processes.c");
    let count = |mark: &str| counted[&marked_line("processes.c", &format!("line: {mark} "))];
    // Four threads, and a loop that 40 timer signals interrupt.
    let steps: u64 = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .unwrap();
    assert!(steps > 400_000);
    assert_eq!(count("step"), steps);
    // Each instruction that stores to persistent memory faults once, in the middle of a block.
    assert_eq!(count("store"), 5);
    assert_eq!(count("fault"), 3);
    assert_eq!(count("beyond-fault"), 0);
    assert_eq!(count("forked"), 2);
    assert_eq!(count("executed"), 2);
    assert_eq!(count("vforked"), 1);
    assert_eq!(count("killed"), 1);
    assert_eq!(count("beyond-kill"), 0);
    let library = line_counts(&lcov, "library.c");
    assert_eq!(library[&marked_line("library.c", "line: triple")], 6);
}
