//! `brownout fuzz`: inputs and images are generated, what they reach is found and can be replayed, and a campaign can be ended and
//! continued.

mod hostile;
mod inputs;
mod resumption;
mod servers;
#[path = "../test_dir/mod.rs"]
mod test_dir;

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use test_dir::{TestDir, findings};

/// The longest time that a campaign may need; machines that run the tests may be slow.
const TIME_LIMIT: Duration = Duration::from_secs(240);

impl TestDir {
    /// The store, with seeds that show nothing by themselves.
    fn store(seeds: &[&str]) -> Self {
        let dir = Self::with("fuzz/store.c", &["-g"]);
        dir.write_seeds(seeds);
        dir
    }

    fn write_seeds(&self, seeds: &[&str]) {
        fs::create_dir(self.path("seeds")).unwrap();
        for (number, seed) in seeds.iter().enumerate() {
            fs::write(self.path(&format!("seeds/{number}")), seed).unwrap();
        }
    }

    fn start(&self, options: &[&str], program: &[&str]) -> Child {
        let fuzz = ["fuzz", "--seeds", "seeds", "--jobs", "1"];
        let arguments = [&fuzz[..], options, &["--"], program].concat();
        let mut command = self.command(&arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// Waits until a campaign has found something, and ends it as Ctrl-C does.
    fn fuzz_until(&self, program: &[&str], is_found: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        self.fuzz_with(&[], program, is_found)
    }

    fn fuzz_with(
        &self,
        options: &[&str],
        program: &[&str],
        is_found: impl Fn(&[Value]) -> bool,
    ) -> Vec<Value> {
        let mut campaign = self.start(options, program);
        let started = Instant::now();
        loop {
            let path = self.path("brownout.out/findings.jsonl");
            let text = fs::read_to_string(path).unwrap_or_default();
            let lines = text.lines().map(serde_json::from_str);
            let found: Vec<Value> = lines.filter_map(Result::ok).collect();
            if is_found(&found) {
                break;
            }
            assert!(started.elapsed() < TIME_LIMIT, "{found:#?}");
            assert!(campaign.try_wait().unwrap().is_none(), "it has ended");
            std::thread::sleep(Duration::from_millis(100));
        }
        interrupt(&campaign);
        let ended = campaign.wait().unwrap();
        assert_eq!(ended.code(), Some(1), "bugs were found");
        let found = self.findings();
        assert!(is_found(&found));
        found
    }

    fn run_file(&self) -> Value {
        serde_json::from_str(&self.read("brownout.out/run.json")).unwrap()
    }

    fn executions(&self) -> u64 {
        let text = self.read("brownout.out/campaign.json");
        let campaign: Value = serde_json::from_str(&text).unwrap();
        campaign["executions"].as_u64().unwrap()
    }
}

fn interrupt(child: &Child) {
    let pid = child.id().to_string();
    let status = std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status();
    assert!(status.unwrap().success());
}

fn detail<'f>(finding: &'f Value, name: &str) -> &'f str {
    finding["evidence"]["details"][name].as_str().unwrap_or("")
}

fn of_rule<'f>(found: &'f [Value], rule: &str) -> Option<&'f Value> {
    found.iter().find(|finding| finding["rule"] == rule)
}

#[test]
fn a_crash_image_on_which_the_program_does_not_start_is_found_and_replayed() {
    let dir = TestDir::store(&["put 1\nput 2\nswap\n"]);
    fs::write(dir.path("pool"), "").unwrap();
    let found = dir.fuzz_until(&["./store", "pool", "@@"], |found| {
        of_rule(found, "target-crashed").is_some()
    });
    let crash = of_rule(&found, "target-crashed").unwrap();
    assert_eq!(crash["severity"], "bug");
    assert!(
        crash["message"].as_str().unwrap().contains("SIGABRT"),
        "{crash:#}"
    );
    let frames = crash["stacks"][0]["frames"].as_array().unwrap();
    assert!(
        frames.iter().any(|frame| frame["function"] == "main"),
        "{crash:#}"
    );
    assert!(
        detail(crash, "started on").contains("a crash before event"),
        "{crash:#}"
    );
    // The user's file is as it was.
    assert_eq!(dir.read("pool"), "");
    let id = crash["id"].as_str().unwrap();
    let replayed = dir.brownout(&["replay", "brownout.out", id]);
    assert_eq!(replayed.status, Some(1), "{}", replayed.stderr);
    assert!(
        replayed.stdout.contains("was killed by SIGABRT"),
        "{}",
        replayed.stdout
    );
    let kept = dir.brownout(&["replay", "brownout.out", id, "--keep", "image"]);
    assert_eq!(kept.status, Some(0), "{}", kept.stderr);
    let image = fs::read(dir.path("image")).unwrap();
    assert_eq!(
        image[8..16],
        1_u64.to_le_bytes(),
        "the swap was interrupted"
    );
    let sarif = dir.read("brownout.out/report.sarif");
    assert!(sarif.contains("target-crashed"));
    let run = dir.run_file();
    let tested = run["tested"].to_string();
    assert!(
        tested.contains("paths through persistent memory"),
        "{tested}"
    );
    let operations = dir.read("brownout.out/pm-operations.csv");
    let store = operations.lines().find(|line| {
        let place = line.split('"').nth(1).unwrap_or_default();
        place.contains("store.c:") && line.contains(",store,id:")
    });
    assert!(store.is_some(), "{operations}");
}

#[test]
fn a_missing_flush_behind_two_commands_is_found_with_its_input_and_replayed() {
    // Neither seed drops anything: there is nothing to drop, or nothing is dropped.
    let dir = TestDir::store(&["put 1\n", "drop\n"]);
    let is_it = |found: &[Value]| {
        let mut rules = found.iter().map(|finding| finding["rule"].as_str());
        rules.any(|rule| matches!(rule, Some("missing-flush" | "transient-data")))
    };
    let mut campaign = dir.start(&["--fail-on", "warning"], &["./store", "pool"]);
    let started = Instant::now();
    let found = loop {
        let path = dir.path("brownout.out/findings.jsonl");
        let text = fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().map(serde_json::from_str);
        let found: Vec<Value> = lines.filter_map(Result::ok).collect();
        if is_it(&found) {
            break found;
        }
        assert!(started.elapsed() < TIME_LIMIT, "{found:#?}");
        std::thread::sleep(Duration::from_millis(100));
    };
    // What a process that is killed has found stays, and says that it is not finished.
    campaign.kill().unwrap();
    campaign.wait().unwrap();
    assert!(!dir.path("pool").exists());
    let lost = found.iter().find(|finding| {
        let rule = finding["rule"].as_str();
        matches!(rule, Some("missing-flush" | "transient-data"))
    });
    let lost = lost.unwrap();
    let frames = lost["stacks"][0]["frames"].as_array().unwrap();
    assert_eq!(frames[0]["function"], "drop");
    let input = dir.read(&format!("brownout.out/{}", detail(lost, "input")));
    assert!(input.contains("drop"), "{input}");
    assert_eq!(findings(&dir.path("brownout.out")).len(), found.len());
    let id = lost["id"].as_str().unwrap();
    let replayed = dir.brownout(&["replay", "brownout.out", id]);
    assert_eq!(
        replayed.status,
        Some(1),
        "{}{}",
        replayed.stdout,
        replayed.stderr
    );
    assert!(
        replayed.stdout.contains("is found again"),
        "{}",
        replayed.stdout
    );
    // The same command continues where the killed process was.
    let before = dir.executions();
    let again = dir.brownout(&[
        "fuzz",
        "--seeds",
        "seeds",
        "--jobs",
        "1",
        "--fail-on",
        "warning",
        "--time-limit",
        "1s",
        "--",
        "./store",
        "pool",
    ]);
    assert_eq!(again.status, Some(1), "{}", again.stderr);
    assert!(
        again.stderr.contains("continuing the campaign"),
        "{}",
        again.stderr
    );
    assert!(dir.executions() > before);
    assert!(is_it(&dir.findings()));
    let names = fs::read_dir(dir.path("brownout.out/corpus")).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name());
    assert!(names.all(|name| name.to_str().unwrap().starts_with("id:")));
    let figures = dir.read("brownout.out/figures.csv");
    assert!(figures.starts_with("seconds,executions,") && figures.lines().count() > 1);
}

#[test]
fn a_program_without_persistent_files_is_not_reported_as_tested() {
    let dir = TestDir::store(&["x\n"]);
    let done = dir.brownout(&[
        "fuzz",
        "--seeds",
        "seeds",
        "--time-limit",
        "500ms",
        "--jobs",
        "1",
        "--",
        "cat",
    ]);
    assert_eq!(done.status, Some(3), "{}", done.stderr);
    assert!(
        done.stderr.contains("nothing persistent was seen"),
        "{}",
        done.stderr
    );
    assert_eq!(dir.run_file()["exit_code"], 3);
}

#[test]
fn what_cannot_be_used_is_named() {
    let dir = TestDir::store(&["x\n"]);
    fs::create_dir(dir.path("empty")).unwrap();
    fs::write(dir.path("bad.dict"), "set\n").unwrap();
    fs::write(dir.path("bad.grammar"), "get <key>\n").unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["--seeds", "empty"], "contains no files"),
        (&["--seeds", "nowhere"], "cannot read the seeds"),
        (&["--dict", "bad.dict"], "line 1 of the dictionary"),
        (&["--grammar", "bad.grammar"], "<key> is not defined"),
        (&["--crash-rate", "2"], "not a probability"),
        (&["--longest-input", "0"], "at least 1 byte"),
    ];
    for (options, sentence) in cases {
        let arguments = [&["fuzz"], options, &["--", "./store", "pool"]].concat();
        let done = dir.brownout(&arguments);
        assert_eq!(done.status, Some(2), "{options:?}: {}", done.stderr);
        assert!(
            done.stderr.contains(sentence),
            "{options:?}: {}",
            done.stderr
        );
    }
    let missing = dir.brownout(&["fuzz", "--", "./nothing", "pool"]);
    assert_eq!(missing.status, Some(2), "{}", missing.stderr);
    let source = dir.brownout(&["fuzz", "--", "./store.c", "pool"]);
    assert_eq!(source.status, Some(2), "{}", source.stderr);
    assert!(
        source.stderr.contains("not executable"),
        "{}",
        source.stderr
    );
    let limit = ["fuzz", "--time-limit", "300ms", "--jobs", "1", "--"];
    dir.brownout(&[&limit[..], &["./store", "pool"]].concat());
    let other = dir.brownout(&[&limit[..], &["./store", "pool2"]].concat());
    assert_eq!(other.status, Some(2));
    assert!(other.stderr.contains("another program"), "{}", other.stderr);
    let check = dir.brownout(&["check", "--", "./store", "pool"]);
    assert_eq!(check.status, Some(2));
    assert!(check.stderr.contains("campaign"), "{}", check.stderr);
    let before = dir.read("brownout.out/run.json");
    let crash = dir.brownout(&["crash", "brownout.out", "--recover", "true"]);
    assert_eq!(crash.status, Some(2));
    assert!(
        crash.stderr.contains("has no trace of its own"),
        "{}",
        crash.stderr
    );
    assert_eq!(dir.read("brownout.out/run.json"), before);
    assert!(dir.path("brownout.out/campaign.json").exists());
}
