//! A campaign that is continued: after it was killed, after the disk was full, and with what earlier processes have found and left open.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::*;

/// The store is its own recovery: it aborts if a swap was interrupted.
const RECOVER: &str = "sleep 0.1; ./store pool < /dev/null";
const SWAP: &str = "put 1\nput 2\nswap\n";

impl TestDir {
    fn cases(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path("brownout.out/cases.jsonl")).unwrap_or_default();
        let lines = text.lines().map(serde_json::from_str);
        lines.filter_map(Result::ok).collect()
    }

    /// Runs a campaign for a time.
    fn fuzz_for(&self, time: &str, options: &[&str]) -> test_dir::Completed {
        let fuzz = [
            "fuzz",
            "--seeds",
            "seeds",
            "--jobs",
            "1",
            "--time-limit",
            time,
        ];
        self.brownout(&[&fuzz[..], options, &["--", "./store", "pool"]].concat())
    }
}

fn wait_until(campaign: &mut Child, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < TIME_LIMIT);
        assert!(campaign.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_examination_that_was_killed_is_done_again() {
    let dir = TestDir::store(&[SWAP]);
    let options = ["--recover", RECOVER, "--crash-budget", "60s"];
    let mut campaign = dir.start(&options, &["./store", "pool"]);
    let inputs = || -> Vec<PathBuf> {
        let entries = fs::read_dir(dir.path("brownout.out")).into_iter().flatten();
        let paths = entries.flatten().map(|entry| entry.path());
        let is_input = |path: &PathBuf| path.to_string_lossy().contains("/input-");
        paths.filter(is_input).collect()
    };
    // The journal of crash testing is there: it has begun.
    wait_until(&mut campaign, || {
        inputs()
            .iter()
            .any(|input| input.join("crash.jsonl").exists())
    });
    let examined = inputs();
    campaign.kill().unwrap();
    campaign.wait().unwrap();
    let [input] = &examined[..] else {
        panic!("{examined:?}")
    };
    let number = input.file_name().unwrap().to_str().unwrap();
    let number: u64 = number.trim_start_matches("input-").parse().unwrap();
    let examination = |dir: &TestDir| {
        let cases = dir.cases().into_iter().rev();
        let mut of_input = cases.filter(|case| case["number"] == number);
        of_input.find_map(|case| case.get("examination").cloned())
    };
    assert_eq!(examination(&dir), None);
    let mut campaign = dir.start(&options, &["./store", "pool"]);
    wait_until(&mut campaign, || examination(&dir).is_some());
    interrupt(&campaign);
    assert_eq!(campaign.wait().unwrap().code(), Some(1), "recovery fails");
    let crashes = &examination(&dir).unwrap()["crashes"];
    assert!(crashes["tried"].as_u64().unwrap() > 0, "{crashes:#}");
    let found = dir.findings();
    let crash = found
        .iter()
        .find(|finding| detail(finding, "input") == format!("input-{number}/input"));
    assert!(crash.is_some(), "{found:#?}");
}

#[test]
fn a_continued_campaign_keeps_what_was_found_and_why_it_did_not_pass() {
    let dir = TestDir::store(&["put 1\ndrop\n"]);
    fs::write(
        dir.path("accepted.toml"),
        "[[suppression]]\nrule = \"*\"\nfunction = \"drop\"\nreason = \"known\"\n",
    )
    .unwrap();
    let suppressed = ["--suppressions", "accepted.toml"];
    let recover = ["--recover", RECOVER, "--crash-budget", "1ms"];
    let options = [&suppressed[..], &recover].concat();
    let mut campaign = dir.start(&options, &["./store", "pool"]);
    wait_until(&mut campaign, || {
        let mut cases = dir.cases().into_iter();
        cases.any(|case| case["examination"]["crashes"]["reasons"][0].is_string())
    });
    interrupt(&campaign);
    assert_eq!(campaign.wait().unwrap().code(), Some(3));
    let sentence = "not all crashes of";
    assert!(dir.read("brownout.out/run.json").contains(sentence));
    assert!(!dir.read("brownout.out/suppressed.jsonl").is_empty());
    // The inputs are not examined once more, so that what is known of them is all there is.
    let again = dir.fuzz_for("1ms", &options);
    assert_eq!(again.status, Some(3), "{}", again.stderr);
    assert!(again.stderr.contains(sentence), "{}", again.stderr);
    assert!(!dir.read("brownout.out/suppressed.jsonl").is_empty());
    let all = dir.fuzz_for("1ms", &[]);
    assert_eq!(all.status, Some(1), "{}", all.stderr);
    let found = dir.findings();
    let of_drop = found.iter().find(|finding| {
        let frames = finding["stacks"][0]["frames"].as_array();
        frames.is_some_and(|frames| frames[0]["function"] == "drop")
    });
    assert!(of_drop.is_some(), "{found:#?}");
    // Findings that cannot be read are not replaced.
    fs::write(dir.path("brownout.out/findings.jsonl"), "{").unwrap();
    let damaged = dir.fuzz_for("1ms", &[]);
    assert_eq!(damaged.status, Some(2), "{}", damaged.stderr);
    assert_eq!(dir.read("brownout.out/findings.jsonl"), "{");
}

#[test]
fn a_campaign_on_a_full_disk_says_so_and_is_continued_when_there_is_space() {
    let dir = TestDir::store(&["put 1\n", "drop\n"]);
    fs::create_dir(dir.path("small")).unwrap();
    let brownout = env!("CARGO_BIN_EXE_brownout");
    let fuzz = format!(
        "{brownout} fuzz --seeds seeds --jobs 1 --out small/out --time-limit 60s -- ./store pool"
    );
    // The file system is that of this script alone, and is gone when it ends.
    let script = format!(
        "mount -t tmpfs -o size=300k none small || exit 77
         {fuzz} 2> full.log; echo $? > full.status
         ls small/out/corpus | wc -l > full.inputs
         mount -o remount,size=64m small
         {} 2> again.log; echo $? > again.status",
        fuzz.replace("60s", "2s")
    );
    let ran = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .current_dir(dir.directory.path())
        .status()
        .unwrap();
    assert!(ran.success(), "{ran}");
    let (log, again) = (dir.read("full.log"), dir.read("again.log"));
    assert_eq!(dir.read("full.status"), "2\n", "{log}");
    assert!(log.contains("the disk is full"), "{log}");
    let inputs: u64 = dir.read("full.inputs").trim().parse().unwrap();
    assert!(inputs > 0, "{log}");
    assert!(again.contains("continuing the campaign"), "{again}");
    assert!(
        matches!(dir.read("again.status").trim(), "0" | "1"),
        "{again}"
    );
}

#[test]
fn images_take_no_more_than_the_limit_also_when_a_campaign_is_continued() {
    let dir = TestDir::store(&["put 1\nput 2\n", SWAP, "put 3\ndrop\nput 4\n"]);
    let images = || -> (usize, u64) {
        let entries = fs::read_dir(dir.path("brownout.out/images")).unwrap();
        let sizes = entries.map(|entry| entry.unwrap().metadata().unwrap().len());
        let sizes: Vec<u64> = sizes.collect();
        (sizes.len(), sizes.iter().sum())
    };
    for time in ["6s", "6s"] {
        let done = dir.fuzz_for(time, &["--disk-limit", "8K"]);
        assert!(matches!(done.status, Some(0 | 1)), "{}", done.stderr);
        let (count, bytes) = images();
        // An image changes at least one page of 4 KiB: of three, one is evicted, and only its origin is there.
        assert!(
            count > 2 && bytes <= 8 << 10,
            "{count} images, {bytes} bytes"
        );
        assert!(
            !done.stderr.contains("more than --disk-limit"),
            "{}",
            done.stderr
        );
    }
}
