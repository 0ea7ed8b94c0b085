//! What the rebuilt program proves about repairs, and what is then applied.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::TestDir;
use crate::test_dir::Completed;

/// A program that does what its standard input says: `a` stores to one word without a flush, `b` to another.
const PROGRAM: &str = "\
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
struct pool { uint64_t word[32]; };
static void persist(const void *p, unsigned long n) { (void)n; _mm_clflush(p); _mm_sfence(); }
static void first(struct pool *pool)
{
  pool->word[0] += 1;
}
static void second(struct pool *pool)
{
  pool->word[16] += 1;
}
int main(void)
{
  int fd = open(\"pool\", O_RDWR | O_CREAT, 0600);
  if (ftruncate(fd, 4096)) return 2;
  struct pool *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  pool->word[8] = 1;
  persist(&pool->word[8], 8);
  pool->word[0] = 1;
  persist(&pool->word[0], 8);
  pool->word[16] = 1;
  persist(&pool->word[16], 8);
  for (int c = getchar(); c != EOF; c = getchar()) {
    if (c == 'a') first(pool);
    if (c == 'b') second(pool);
  }
  return 0;
}
";
const BUILD: &str = "cc -O0 -g -Wall -o small small.c";

/// A directory with the program.
fn built() -> TestDir {
    let dir = TestDir::new();
    dir.write("small.c", PROGRAM);
    dir.write("ab", "ab");
    let built = Command::new("sh")
        .args(["-c", BUILD])
        .current_dir(dir.path("."))
        .status();
    assert!(built.unwrap().success());
    dir
}

/// Checks the program with a file as standard input.
fn check_with_input(dir: &TestDir, input: &str) {
    let mut check = dir.command(&["check", "--quiet", "--pm", "pool", "--", "./small"]);
    check.stdin(File::open(dir.path(input)).unwrap());
    assert_eq!(check.status().unwrap().code(), Some(1));
}

fn lines(run: &Completed) -> Vec<Value> {
    let lines = run.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn has_no_view(run: &Completed) -> bool {
    run.stderr.contains("allows no private view")
}

#[test]
fn a_statement_that_the_rebuilt_program_does_not_reach_is_not_proven() {
    let dir = built();
    check_with_input(&dir, "ab");
    let before = dir.read("small.c");
    let fix = [
        "fix",
        "brownout.out",
        "--build",
        BUILD,
        "--apply",
        "--format",
        "json",
    ];
    let run = dir.brownout(&fix);
    if has_no_view(&run) {
        return;
    }
    assert_eq!(run.status, Some(1), "{}{}", run.stdout, run.stderr);
    let found = lines(&run);
    let (_, repairs) = found.split_last().unwrap();
    assert_eq!(repairs.len(), 2, "{}", run.stdout);
    for repair in repairs {
        assert_eq!(repair["proof"], "trace");
        let doubt = repair["doubt"].as_str().unwrap();
        assert!(doubt.contains("standard input"), "{doubt}");
    }
    assert_eq!(dir.read("small.c"), before);
}

#[test]
fn what_the_rebuilt_program_still_shows_is_left_out_of_the_patch() {
    let dir = built();
    let check = ["check", "--pm", "pool", "--", "sh", "-c", "./small < ab"];
    let run = dir.brownout(&check);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    // The build undoes the second repair.
    let undo = "sed -i '/persist.&pool->word.16.,/d; /pm_write_back.&pool->word.16.,/d' small.c";
    let build = format!("{undo} && {BUILD}");
    let fix = [
        "fix",
        "brownout.out",
        "--build",
        &build,
        "--apply",
        "--format",
        "json",
    ];
    let run = dir.brownout(&fix);
    if has_no_view(&run) {
        return;
    }
    assert_eq!(run.status, Some(1), "{}{}", run.stdout, run.stderr);
    let found = lines(&run);
    let (all, repairs) = found.split_last().unwrap();
    let proven = repairs.iter().filter(|repair| repair["proof"] == "rebuilt");
    assert_eq!(proven.count(), 1, "{}", run.stdout);
    let patch = all["patch"].as_str().unwrap();
    assert!(
        patch.contains("word[0]") && !patch.contains("+  persist(&pool->word[16]"),
        "{patch}"
    );
    assert!(run.stderr.contains("changed "), "{}", run.stderr);
    let source = dir.read("small.c");
    assert!(
        source.contains("pool->word[0] += 1;\n  persist("),
        "{source}"
    );
    assert!(source.contains("pool->word[16] += 1;\n}"), "{source}");
}

#[test]
fn git_applies_the_patch_and_the_repair_of_one_finding() {
    let dir = built();
    let check = ["check", "--pm", "pool", "--", "sh", "-c", "./small < ab"];
    dir.brownout(&check);
    let run = dir.brownout(&[
        "fix",
        "brownout.out",
        "--patch",
        "all.diff",
        "--format",
        "json",
    ]);
    let found = lines(&run);
    dir.write("one.diff", found[0]["diff"].as_str().unwrap());
    let apply = |options: &[&str], at: &Path| {
        let mut git = Command::new("git");
        git.arg("apply").args(options).current_dir(at);
        let applied = git.output().unwrap();
        assert!(applied.status.success(), "{applied:?}");
    };
    let at = dir.path(".");
    apply(&["--check", "all.diff"], &at);
    apply(&["one.diff"], &at);
    apply(&["-R", "one.diff"], &at);
    assert_eq!(dir.read("small.c"), PROGRAM);
    apply(&["all.diff"], &at);
    assert_ne!(dir.read("small.c"), PROGRAM);
}

#[test]
fn a_repair_of_one_finding_leaves_the_results_of_the_others() {
    let dir = built();
    let check = ["check", "--pm", "pool", "--", "sh", "-c", "./small < ab"];
    dir.brownout(&check);
    dir.brownout(&["fix", "brownout.out"]);
    let ids: Vec<String> = dir
        .findings()
        .iter()
        .filter(|finding| !finding["fix"].is_null())
        .map(|finding| finding["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 2);
    dir.brownout(&["fix", "brownout.out", &ids[0]]);
    let fixed = dir.findings();
    let fixed = fixed.iter().filter(|finding| !finding["fix"].is_null());
    assert_eq!(fixed.count(), 2);
}

#[test]
fn a_file_with_the_line_ends_of_windows_keeps_them() {
    let dir = built();
    fs::write(dir.path("small.c"), PROGRAM.replace('\n', "\r\n")).unwrap();
    let built = Command::new("sh")
        .args(["-c", BUILD])
        .current_dir(dir.path("."))
        .status();
    assert!(built.unwrap().success());
    let check = ["check", "--pm", "pool", "--", "sh", "-c", "./small < ab"];
    dir.brownout(&check);
    dir.brownout(&["fix", "brownout.out", "--apply"]);
    let source = dir.read("small.c");
    assert!(source.contains("+= 1;\r\n  persist("), "{source}");
    assert_eq!(source.matches('\n').count(), source.matches("\r\n").count());
}
