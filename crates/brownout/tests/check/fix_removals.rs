//! `brownout fix --performance` as users see it, and repairs beside findings that cannot be repaired.

use std::process::Command;

use serde_json::Value;

use crate::TestDir;

/// One flush too many, one of volatile memory, and one that is needed for the first of two lines alone.
const PROGRAM: &str = "\
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
struct pool { uint64_t word[8]; uint64_t flag : 3; };
static void persist(void *p) { _mm_clflush(p); }
static void set(uint64_t *word)
{
  *word = 7;
  persist(word);
}
int main(void)
{
  int fd = open(\"pool\", O_RDWR | O_CREAT, 0600);
  if (ftruncate(fd, 4096)) return 2;
  struct pool *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  uint64_t local[8] = {0};
  set(&pool->word[0]);
  set(&local[0]);
  persist(&pool->word[0]); /* again */
  persist(local);
  return local[0] != 7;
}
";
const BUILD: &str = "cc -O1 -g -Wall -Werror -o small small.c";

/// Results of a program that is written here.
fn checked(source: &str, options: &[&str]) -> TestDir {
    let dir = TestDir::new();
    dir.write("small.c", source);
    let built = Command::new("sh")
        .args(["-c", BUILD])
        .current_dir(dir.path("."))
        .status();
    assert!(built.unwrap().success());
    let arguments = ["check", "--pm", "pool"].iter().chain(options);
    let arguments: Vec<&str> = arguments.chain(&["--", "./small"]).copied().collect();
    dir.brownout(&arguments);
    dir
}

fn lines(output: &str) -> Vec<Value> {
    let lines = output.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn what_does_nothing_is_removed_only_if_the_rebuilt_program_shows_that() {
    let dir = checked(PROGRAM, &[]);
    let run = dir.brownout(&["fix", "brownout.out", "--performance", "--format", "json"]);
    assert_eq!(run.status, Some(0), "{}{}", run.stdout, run.stderr);
    let found = lines(&run.stdout);
    let (all, repairs) = found.split_last().unwrap();
    assert_eq!(all["patch"], "");
    let suggested = repairs.iter().filter(|repair| repair["suggested"] == true);
    let diffs: Vec<&str> = suggested
        .map(|repair| repair["diff"].as_str().unwrap())
        .collect();
    let has = |line: &str| diffs.iter().any(|diff| diff.contains(line));
    assert!(
        has("-  persist(&pool->word[0]); /* again */\n"),
        "{diffs:?}"
    );
    assert!(has("-  persist(local);\n"), "{diffs:?}");
    assert!(!has("-  persist(word);\n"), "{diffs:?}");
    let run = dir.brownout(&[
        "fix",
        "brownout.out",
        "--performance",
        "--apply",
        "--build",
        BUILD,
    ]);
    if run.stderr.contains("cannot create a private view") {
        return;
    }
    assert_eq!(run.status, Some(0), "{}{}", run.stdout, run.stderr);
    assert!(
        run.stdout.contains("and removes 2 flushes"),
        "{}",
        run.stdout
    );
    let source = dir.read("small.c");
    assert!(!source.contains("again") && !source.contains("persist(local)"));
    assert!(source.contains("persist(word)"), "{source}");
}

#[test]
fn a_finding_is_repaired_beside_one_of_its_function_that_cannot_be() {
    let program = PROGRAM.replace(
        "  set(&pool->word[0]);\n",
        "  pool->word[3] = 1;\n  (pool + 8)->flag = 5;\n  set(&(pool + 16)->word[0]);\n",
    );
    let program = program.replace("  persist(&pool->word[0]); /* again */\n", "");
    let dir = checked(&program, &[]);
    let run = dir.brownout(&["fix", "brownout.out", "transient-data", "--format", "json"]);
    let found = lines(&run.stdout);
    let (_, repairs) = found.split_last().unwrap();
    let refused = |repair: &&Value| {
        let reason = repair["reason"].as_str().unwrap_or_default();
        reason.contains("bit-field")
    };
    assert_eq!(repairs.iter().filter(refused).count(), 1, "{}", run.stdout);
    let repaired: Vec<&Value> = repairs.iter().filter(|it| it["repaired"] == true).collect();
    assert_eq!(repaired.len(), 1, "{}", run.stdout);
    assert_eq!(repaired[0]["code"][0], "persist(&pool->word[3]);");
}
