//! Which inputs are generated and kept.

use std::fs;

use super::*;

#[test]
fn values_that_the_program_compares_are_put_into_the_input() {
    let dir = TestDir::with("fuzz/magic.c", &["-g"]);
    dir.write_seeds(&["hello\n"]);
    let found = dir.fuzz_with(&[], &["./magic", "pool"], |found| {
        of_rule(found, "target-crashed").is_some()
    });
    let crash = of_rule(&found, "target-crashed").unwrap();
    let input = dir.path(&format!("brownout.out/{}", detail(crash, "input")));
    let input = std::fs::read(input).unwrap();
    let magic = [
        &0xdead_c0de_u32.to_le_bytes()[..],
        &0x1122_3344_5566_7788_u64.to_le_bytes(),
    ];
    assert!(input.starts_with(&magic.concat()), "{input:x?}");
    // The seed is kept, although a shorter input takes the same path through persistent memory.
    let corpus = std::fs::read_dir(dir.path("brownout.out/corpus")).unwrap();
    let mut inputs = corpus.map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    assert!(inputs.any(|input| input == b"hello\n"));
}

/// A program that only a password makes crash, which no mutation finds.
fn secret() -> TestDir {
    let dir = TestDir::with("fuzz/secret.c", &["-g", "-pthread"]);
    dir.write_seeds(&["say hello\n"]);
    dir
}

#[test]
fn tokens_of_a_dictionary_and_lines_of_a_grammar_are_tried() {
    let dir = secret();
    fs::write(dir.path("words.dict"), "word=\"open-sesame-17\"\n").unwrap();
    fs::write(
        dir.path("lines.grammar"),
        "<word>\nopen-<cave>-17\n<cave> = door | sesame\n",
    )
    .unwrap();
    for option in [["--dict", "words.dict"], ["--grammar", "lines.grammar"]] {
        let _ = fs::remove_dir_all(dir.path("brownout.out"));
        let found = dir.fuzz_with(&option, &["./secret", "pool"], |found| {
            of_rule(found, "target-crashed").is_some()
        });
        let crash = of_rule(&found, "target-crashed").unwrap();
        let input = dir.read(&format!("brownout.out/{}", detail(crash, "input")));
        assert!(input.contains("open-sesame-17"), "{option:?}: {input}");
    }
}

/// Runs a campaign of the program for a time, and returns what is printed.
fn campaign(dir: &TestDir, options: &[&str], program: &[&str]) -> String {
    let _ = fs::remove_dir_all(dir.path("brownout.out"));
    let fuzz = [
        "fuzz",
        "--seeds",
        "seeds",
        "--jobs",
        "1",
        "--time-limit",
        "4s",
    ];
    let done = dir.brownout(&[&fuzz[..], options, &["--"], program].concat());
    assert!(matches!(done.status, Some(0 | 3)), "{}", done.stderr);
    done.stderr
}

#[test]
fn where_the_program_is_copied_is_said_and_can_be_chosen() {
    let dir = secret();
    let printed = campaign(&dir, &[], &["./secret", "pool"]);
    assert!(
        printed.contains("copied at the first use of the input"),
        "{printed}"
    );
    let printed = campaign(&dir, &[], &["./secret", "pool", "threads"]);
    let why = "because it has 2 threads when it first uses its input";
    assert!(printed.contains(why), "{printed}");
    let fork_at = ["--fork-at", "serve"];
    let printed = campaign(&dir, &fork_at, &["./secret", "pool"]);
    assert!(printed.contains("copied before `serve`"), "{printed}");
    let campaign_file = dir.read("brownout.out/campaign.json");
    assert!(
        campaign_file.contains("\"fork_at\": \"serve\""),
        "{campaign_file}"
    );
    let printed = campaign(&dir, &["--fork-at", "nothing"], &["./secret", "pool"]);
    assert!(
        printed.contains("`nothing` is not called before"),
        "{printed}"
    );
}

#[test]
fn inputs_on_which_executions_differ_are_named() {
    let dir = secret();
    let printed = campaign(&dir, &[], &["./secret", "pool", "uptime"]);
    assert!(
        printed.contains("not the same in each execution (id:"),
        "{printed}"
    );
    // A process that continues knows that.
    let cases = dir.read("brownout.out/cases.jsonl");
    assert!(cases.contains("\"is_stable\":false"), "{cases}");
}
