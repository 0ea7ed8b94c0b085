//! Many findings: the text shows the first ones and says how many there are; the files have all.

use std::fmt::Write as _;
use std::process::Command;

use serde_json::Value;

use crate::{TestDir, findings};

/// More than the text shows by default.
const MISTAKES: usize = 25;

/// A program with as many mistakes in functions of their own.
fn source() -> String {
    let mut text = String::from(
        "#include <fcntl.h>\n#include <immintrin.h>\n#include <stdint.h>\n#include <sys/mman.h>\n#include <unistd.h>\n\
         struct line { _Alignas(64) volatile uint64_t value; volatile uint64_t count; };\n",
    );
    for number in 0..MISTAKES {
        let _ = write!(
            text,
            "__attribute__((noinline)) void put{number}(struct line *line)\n{{\n  line->value = 1;\n  \
             _mm_clflush((void *)line);\n  line->count = {number} + 1;\n}}\n"
        );
    }
    text += "int main(int argc, char **argv)\n{\n  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);\n  \
             if (argc < 2 || fd < 0 || ftruncate(fd, 65536) != 0) return 2;\n  \
             struct line *line = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);\n";
    for number in 0..MISTAKES {
        let _ = writeln!(text, "  put{number}(&line[2 * {number}]);");
    }
    text + "  return 0;\n}\n"
}

/// What brownout prints to a terminal with 72 columns.
fn on_a_terminal(dir: &TestDir, arguments: &str) -> String {
    let brownout = env!("CARGO_BIN_EXE_brownout");
    let command = format!("stty cols 72 rows 40; NO_COLOR=1 {brownout} {arguments}");
    let printed = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .current_dir(dir.directory.path())
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&printed.stdout).replace('\r', "")
}

#[test]
fn lines_are_folded_at_the_width_of_the_terminal() {
    let dir = TestDir::new();
    assert_eq!(dir.check(&[], &["last"]).status, Some(1));
    let piped = dir.brownout(&["report", "brownout.out"]);
    assert!(piped.stdout.lines().any(|line| line.chars().count() > 72));
    let shown = on_a_terminal(&dir, "report brownout.out");
    assert!(shown.contains("missing-flush"), "{shown}");
    // The details of a finding. A path is one word, and stays whole.
    let too_long = |line: &&str| {
        line.chars().count() > 72 && line.starts_with(' ') && line.trim().contains(' ')
    };
    let long: Vec<&str> = shown.lines().filter(too_long).collect();
    assert!(long.is_empty(), "{long:?}\n{shown}");
}

#[test]
fn the_text_shows_twenty_findings_unless_all_are_wanted_and_the_files_have_all() {
    let dir = TestDir::new();
    dir.write("many.c", &source());
    let compiled = Command::new("cc")
        .args(["-O1", "-g", "-o", "many", "many.c"])
        .current_dir(dir.directory.path())
        .status();
    assert!(compiled.unwrap().success());
    let run = dir.brownout(&["check", "--", "./many", "pool"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let shown = |text: &str| text.matches("bug[missing-flush]").count();
    assert_eq!(shown(&run.stderr), 20, "{}", run.stderr);
    assert!(run.stderr.contains("--all"), "{}", run.stderr);
    assert!(run.stderr.contains("25 bugs"), "{}", run.stderr);

    let found = findings(&dir.path("brownout.out"));
    let bugs = found.iter().filter(|finding| finding["severity"] == "bug");
    assert_eq!(bugs.count(), MISTAKES);
    let file: Value = serde_json::from_str(&dir.read("brownout.out/run.json")).unwrap();
    assert_eq!(file["findings"], found.len());
    let junit = dir.read("brownout.out/junit.xml");
    assert_eq!(junit.matches("type=\"missing-flush\"").count(), MISTAKES);
    let sarif: Value = serde_json::from_str(&dir.read("brownout.out/report.sarif")).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let errors = results.iter().filter(|result| result["level"] == "error");
    assert_eq!(errors.count(), MISTAKES);

    let all = dir.brownout(&["report", "brownout.out", "--all"]);
    assert_eq!(all.status, Some(1), "{}", all.stderr);
    let text = all.stdout + &all.stderr;
    assert_eq!(shown(&text), MISTAKES, "{text}");
}
