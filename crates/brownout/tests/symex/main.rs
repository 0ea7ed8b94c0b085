//! `brownout symex`: bugs behind conditions that mutation does not meet are found with an input that meets them, and nothing is reported
//! that is not there.

#[path = "../test_dir/mod.rs"]
mod test_dir;

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use test_dir::{Completed, TestDir};

/// The longest time that a campaign may need; machines that run the tests may be slow.
const TIME_LIMIT: Duration = Duration::from_secs(240);

/// A program with a step behind a condition. `clean` is its twin without the mistake.
fn guarded(condition: &str, clean: bool) -> TestDir {
    let condition = format!("-D{condition}");
    let twin = if clean { "-DCLEAN" } else { "-DBUG" };
    TestDir::with("symex/guarded.c", &["-g", &condition, twin])
}

impl TestDir {
    /// Runs a campaign until it has nothing left to try.
    fn symex(&self, options: &[&str], program: &[&str]) -> Completed {
        let symex = ["symex", "--jobs", "1", "--time-limit", "200s"];
        self.brownout(&[&symex[..], options, &["--"], program].concat())
    }

    /// Runs a campaign until it has found the mistake, and ends it as Ctrl-C does.
    fn until_found(&self, campaign: &[&str], program: &[&str]) -> Value {
        let mut command = self.command(&[campaign, &["--jobs", "1", "--"], program].concat());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut campaign = command.spawn().unwrap();
        let started = Instant::now();
        loop {
            let path = self.path("brownout.out/findings.jsonl");
            let text = fs::read_to_string(path).unwrap_or_default();
            if text.contains("missing-flush") {
                break;
            }
            assert!(started.elapsed() < TIME_LIMIT, "{text}");
            assert!(campaign.try_wait().unwrap().is_none(), "it has ended");
            std::thread::sleep(Duration::from_millis(100));
        }
        let pid = campaign.id().to_string();
        let kill = std::process::Command::new("kill")
            .args(["-INT", &pid])
            .status();
        assert!(kill.unwrap().success());
        assert_eq!(campaign.wait().unwrap().code(), Some(1), "a bug was found");
        self.missing_flush()
    }

    fn missing_flush(&self) -> Value {
        let found = self.findings();
        let mut found = found.iter();
        let lost = found.find(|finding| finding["rule"] == "missing-flush");
        lost.expect("a missing flush").clone()
    }

    /// The input with which a finding was made.
    fn input_of(&self, finding: &Value) -> Vec<u8> {
        let input = detail(finding, "input");
        fs::read(self.path("brownout.out").join(input)).unwrap()
    }

    fn run_file(&self) -> Value {
        serde_json::from_str(&self.read("brownout.out/run.json")).unwrap()
    }

    /// The program and its results show no fault of replay.
    fn assert_replay_is_right(&self) {
        let run = self.run_file();
        assert_eq!(run["symbolic"]["mismatches"], 0, "{run:#}");
        assert_eq!(run["symbolic"]["damaged"], 0, "{run:#}");
    }
}

fn detail<'f>(finding: &'f Value, name: &str) -> &'f str {
    finding["evidence"]["details"][name].as_str().unwrap_or("")
}

#[test]
fn a_bug_behind_a_magic_number_is_found_and_replayed() {
    let dir = guarded("MAGIC", false);
    let done = dir.symex(&[], &["./guarded", "pool"]);
    assert_eq!(done.status, Some(1), "{}", done.stderr);
    let lost = dir.missing_flush();
    assert_eq!(lost["severity"], "bug");
    let input = dir.input_of(&lost);
    let number = u32::from_le_bytes(input[1..5].try_into().unwrap());
    assert_eq!((number ^ 0x5a5a_5a5a).wrapping_mul(3), 0x0123_4567);
    let replayed = dir.brownout(&["replay", "brownout.out", lost["id"].as_str().unwrap()]);
    assert_eq!(replayed.status, Some(1), "{}", replayed.stderr);
    assert!(
        replayed.stdout.contains("is found again"),
        "{}",
        replayed.stdout
    );
    assert!(!dir.path("pool").exists());
    let symbolic = &dir.run_file()["symbolic"];
    assert_eq!(symbolic["exhausted"], true, "{symbolic:#}");
    assert!(symbolic["paths"].as_u64().unwrap() >= 2, "{symbolic:#}");
    assert_eq!(
        symbolic["operations_reached"], symbolic["operations_known"],
        "{symbolic:#}"
    );
    dir.assert_replay_is_right();
    // The same command continues.
    let again = dir.symex(&[], &["./guarded", "pool"]);
    assert_eq!(again.status, Some(1), "{}", again.stderr);
    assert!(
        again.stderr.contains("continuing the campaign"),
        "{}",
        again.stderr
    );
}

#[test]
fn the_clean_twin_is_silent() {
    let dir = guarded("MAGIC", true);
    let done = dir.symex(&[], &["./guarded", "pool", "@@"]);
    assert_eq!(done.status, Some(0), "{}{}", done.stdout, done.stderr);
    let run = dir.run_file();
    assert_eq!(run["symbolic"]["exhausted"], true, "{run:#}");
    assert_eq!(
        run["symbolic"]["operations_reached"], run["symbolic"]["operations_known"],
        "the step was reached"
    );
    dir.assert_replay_is_right();
}

#[test]
fn a_bug_behind_a_keyword_is_found() {
    let dir = guarded("KEYWORD", false);
    let done = dir.symex(&[], &["./guarded", "pool", "@@"]);
    assert_eq!(done.status, Some(1), "{}", done.stderr);
    let input = dir.input_of(&dir.missing_flush());
    assert!(input.starts_with(b"compact"), "{input:?}");
    dir.assert_replay_is_right();
}

#[test]
fn a_bug_behind_a_decimal_number_is_found() {
    let dir = guarded("DECIMAL", false);
    let lost = dir.until_found(&["symex"], &["./guarded", "pool"]);
    let input = String::from_utf8_lossy(&dir.input_of(&lost)).into_owned();
    assert!(input.contains("7351"), "{input:?}");
    dir.assert_replay_is_right();
}

#[test]
fn a_bug_behind_a_checksum_is_found_in_the_bytes_that_are_symbolic() {
    let dir = guarded("CHECKSUM", false);
    let options = ["--symbolic", "stdin@0..10"];
    let done = dir.symex(&options, &["./guarded", "pool"]);
    assert_eq!(done.status, Some(1), "{}", done.stderr);
    let input = dir.input_of(&dir.missing_flush());
    let sum = { input[2..10].iter() }.fold(7_u16, |sum, &byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    assert_eq!(sum.to_le_bytes(), input[..2]);
    assert!(input[10..].iter().all(|byte| b"A\n".contains(byte)));
    dir.assert_replay_is_right();
}

#[test]
fn bytes_outside_of_the_range_are_not_solved_for() {
    let dir = guarded("MAGIC", false);
    let options = ["--symbolic", "stdin@2..", "--time-limit", "10s"];
    let symex = [&["symex", "--jobs", "1"], &options[..], &["--"]].concat();
    let done = dir.brownout(&[&symex[..], &["./guarded", "pool"]].concat());
    assert_eq!(done.status, Some(0), "{}{}", done.stdout, done.stderr);
    // The plain store behind the condition is known although no run has reached it.
    let source = dir.read("guarded.c");
    let line = source.lines().position(|line| line.contains("extra = 2;"));
    let place = format!("guarded.c:{}:", line.unwrap() + 1);
    let symbolic = &dir.run_file()["symbolic"];
    let unreached = symbolic["unreached"].as_array().unwrap();
    let is_listed = |it: &Value| it.as_str().is_some_and(|it| it.contains(&place));
    assert!(unreached.iter().any(is_listed), "{place}: {unreached:?}");
    let tested = dir.run_file()["tested"].to_string();
    assert!(tested.contains("not reached: "), "{tested}");
    let entries = fs::read_dir(dir.path("brownout.out/analyses")).unwrap();
    assert!(entries.count() > 0, "what was found in the code is kept");
}

#[test]
fn a_bug_behind_a_file_that_is_named_is_found() {
    let dir = guarded("MAGIC", false);
    fs::write(dir.path("commands"), "seven bytes").unwrap();
    let options = ["--symbolic", "file:commands"];
    let done = dir.symex(&options, &["./guarded", "pool", "commands"]);
    assert_eq!(done.status, Some(1), "{}", done.stderr);
    let input = dir.input_of(&dir.missing_flush());
    assert!(
        input.starts_with(b"s"),
        "the file is the first input: {input:?}"
    );
    assert_eq!(fs::read(dir.path("commands")).unwrap(), b"seven bytes");
    dir.assert_replay_is_right();
}

#[test]
fn each_order_of_the_search_finds_the_bug() {
    for order in ["coverage", "random"] {
        let dir = guarded("KEYWORD", false);
        let lost = dir.until_found(&["symex", "--search", order], &["./guarded", "pool"]);
        assert!(dir.input_of(&lost).starts_with(b"compact"));
    }
}

#[test]
fn a_bug_behind_an_argument_is_found_and_replayed() {
    let dir = guarded("ARGUMENT", false);
    let program = ["./guarded", "pool", "-x"];
    let done = dir.symex(&["--symbolic", "arg:2"], &program);
    assert_eq!(done.status, Some(1), "{}", done.stderr);
    let lost = dir.missing_flush();
    assert_eq!(detail(&lost, "argument 2"), "--deep");
    let replayed = dir.brownout(&["replay", "brownout.out", lost["id"].as_str().unwrap()]);
    assert_eq!(replayed.status, Some(1), "{}", replayed.stderr);
    assert!(replayed.stdout.contains("is found again"));
}

#[test]
fn a_bug_behind_an_environment_variable_is_found() {
    let dir = guarded("VARIABLE", false);
    let done = dir.symex(&["--symbolic", "env:STORE_MODE"], &["./guarded", "pool"]);
    assert_eq!(done.status, Some(1), "{}", done.stderr);
    let value = detail(&dir.missing_flush(), "variable STORE_MODE").to_owned();
    assert!(value.starts_with("wild"), "{value}");
}

#[test]
fn a_bug_behind_bytes_of_the_persistent_file_is_a_warning() {
    let dir = guarded("IMAGE", false);
    let mut store = std::process::Command::new(dir.path("guarded"));
    let made = store
        .arg("pool")
        .stdin(Stdio::null())
        .current_dir(dir.directory.path())
        .status();
    assert!(made.unwrap().success());
    let before = fs::read(dir.path("pool")).unwrap();
    let done = dir.symex(&["--symbolic", "pm:pool"], &["./guarded", "pool"]);
    assert_eq!(done.status, Some(0), "{}{}", done.stdout, done.stderr);
    let lost = dir.missing_flush();
    assert_eq!(lost["severity"], "warning");
    let message = lost["message"].as_str().unwrap();
    assert!(message.contains("no run may be able to leave"), "{message}");
    let image = dir.path("brownout.out").join(detail(&lost, "image"));
    let pool = fs::canonicalize(dir.path("pool")).unwrap();
    let image = fs::read(image.join(pool.strip_prefix("/").unwrap())).unwrap();
    assert!(image[64..].starts_with(b"recover"), "{:?}", &image[64..72]);
    assert_eq!(fs::read(dir.path("pool")).unwrap(), before);
    dir.assert_replay_is_right();
}

#[test]
fn a_program_without_persistent_files_is_not_reported_as_tested() {
    let dir = guarded("MAGIC", true);
    let done = dir.symex(&[], &["cat"]);
    assert_eq!(done.status, Some(3), "{}", done.stderr);
    assert!(
        done.stderr.contains("nothing persistent was seen"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_program_that_does_not_depend_on_the_symbolic_bytes_is_not_reported_as_tested() {
    let dir = guarded("MAGIC", true);
    let options = ["--symbolic", "env:UNUSED"];
    let done = dir.symex(&options, &["./guarded", "pool"]);
    assert_eq!(done.status, Some(3), "{}{}", done.stdout, done.stderr);
    assert!(
        done.stderr
            .contains("nothing that the program does depends on"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_fuzzing_campaign_solves_for_what_mutation_does_not_find() {
    let dir = guarded("MAGIC", false);
    let lost = dir.until_found(&["fuzz", "--symex"], &["./guarded", "pool"]);
    assert_eq!(lost["severity"], "bug");
    let names = fs::read_dir(dir.path("brownout.out/corpus")).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.any(|name| name.contains("op:solved")));
    assert!(dir.run_file()["symbolic"]["solved"].as_u64().unwrap() > 0);
}

#[test]
fn what_cannot_be_solved_for_is_named() {
    let dir = guarded("MAGIC", true);
    let cases: [(&[&str], &[&str], &str); 9] = [
        (&["keyboard"], &[], "write stdin, file:PATH"),
        (&["socket"], &[], "sockets cannot be symbolic yet"),
        (&["stdin@9..4"], &[], "is empty"),
        (&["stdin"], &["@@"], "write file:@@"),
        (&["file:@@"], &[], "contains @@"),
        (&["arg:7"], &[], "no such argument"),
        (&["arg:2"], &["@@"], "the path of the input"),
        (&["pm:nowhere"], &[], "no such file"),
        (&["stdin", "file:x"], &[], "one input"),
    ];
    for (sources, arguments, sentence) in cases {
        let symbolic = sources.iter().flat_map(|source| ["--symbolic", source]);
        let mut command = vec!["symex"];
        command.extend(symbolic);
        command.extend(["--", "./guarded", "pool"]);
        command.extend(arguments);
        let done = dir.brownout(&command);
        assert_eq!(done.status, Some(2), "{sources:?}: {}", done.stderr);
        assert!(
            done.stderr.contains(sentence),
            "{sources:?}: {}",
            done.stderr
        );
    }
}
