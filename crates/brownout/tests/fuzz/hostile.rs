//! Programs that do not end, always fail, or destroy what runs them; and workers that find files at different times.

use std::fs;

use super::*;

fn hostile(seeds: &[&str]) -> TestDir {
    let dir = TestDir::with("fuzz/hostile.c", &["-g"]);
    dir.write_seeds(seeds);
    dir
}

const PROGRAM: [&str; 4] = ["--", "./hostile", "pool", "pool2"];

#[test]
fn an_input_that_kills_what_runs_the_program_is_skipped() {
    let dir = hostile(&["die\n", "x\n"]);
    let fuzz = [
        "fuzz",
        "--seeds",
        "seeds",
        "--jobs",
        "1",
        "--time-limit",
        "8s",
    ];
    let done = dir.brownout(&[&fuzz[..], &PROGRAM, &["kill"]].concat());
    assert_eq!(done.status, Some(0), "{}", done.stderr);
    assert!(done.stderr.contains("were skipped"), "{}", done.stderr);
    let run = dir.run_file();
    assert!(run["tested"].to_string().contains("examined"), "{run:#}");
    // Other inputs were run after it.
    let corpus = fs::read_dir(dir.path("brownout.out/corpus")).unwrap();
    let mut inputs = corpus.map(|entry| fs::read(entry.unwrap().path()).unwrap());
    assert!(inputs.any(|input| !input.starts_with(b"die")));
}

#[test]
fn a_program_that_always_fails_is_not_reported_as_tested() {
    let dir = hostile(&["x\n"]);
    let fuzz = [
        "fuzz",
        "--seeds",
        "seeds",
        "--jobs",
        "1",
        "--time-limit",
        "3s",
    ];
    let done = dir.brownout(&[&fuzz[..], &PROGRAM, &["fail"]].concat());
    assert_eq!(done.status, Some(4), "{}", done.stderr);
    assert!(
        done.stderr.contains("never ended with status 0"),
        "{}",
        done.stderr
    );
    assert_eq!(dir.run_file()["exit_code"], 4);
}

#[test]
fn a_program_that_does_not_end_is_found_and_replayed() {
    let dir = hostile(&["x\nspin\n"]);
    let options = ["--timeout", "500ms"];
    let found = dir.fuzz_with(&options, &["./hostile", "pool", "pool2", "spin"], |found| {
        of_rule(found, "target-hung").is_some()
    });
    let hung = of_rule(&found, "target-hung").unwrap();
    let input = dir.read(&format!("brownout.out/{}", detail(hung, "input")));
    assert!(input.contains("spin\n"), "{input}");
    let out = dir.path("brownout.out");
    let id = hung["id"].as_str().unwrap();
    // The program is found from anywhere.
    let mut replay = dir.command(&["replay", out.to_str().unwrap(), id]);
    let replayed: test_dir::Completed = replay.current_dir("/").output().unwrap().into();
    assert_eq!(replayed.status, Some(1), "{}", replayed.stderr);
    assert!(
        replayed.stdout.contains("did not end in time"),
        "{}",
        replayed.stdout
    );
}

#[test]
fn a_file_that_one_worker_finds_is_used_by_all_and_starts_as_the_user_has_it() {
    let dir = hostile(&["x\n", "second\n"]);
    // Only with the file of the user does the program get to the trap.
    let count = 200_u64.to_le_bytes();
    let mut second = vec![0; 4096];
    second[..8].copy_from_slice(&count);
    fs::write(dir.path("pool2"), &second).unwrap();
    fs::write(dir.path("pool"), vec![0; 4096]).unwrap();
    let options = ["--jobs", "2"];
    let mut campaign =
        dir.command(&[&["fuzz", "--seeds", "seeds"], &options[..], &PROGRAM].concat());
    let mut campaign = campaign
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let found = loop {
        let text = fs::read_to_string(dir.path("brownout.out/findings.jsonl"));
        let text = text.unwrap_or_default();
        let lines = text.lines().map(serde_json::from_str);
        let found: Vec<Value> = lines.filter_map(Result::ok).collect();
        if of_rule(&found, "target-crashed").is_some() {
            break found;
        }
        assert!(started.elapsed() < TIME_LIMIT, "{found:#?}");
        assert!(campaign.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(100));
    };
    // Both workers go on after that.
    std::thread::sleep(Duration::from_secs(2));
    interrupt(&campaign);
    assert_eq!(campaign.wait().unwrap().code(), Some(1));
    let crash = of_rule(&found, "target-crashed").unwrap();
    assert_eq!(detail(crash, "started on"), "the files of the user");
    let campaign: Value = serde_json::from_str(&dir.read("brownout.out/campaign.json")).unwrap();
    assert_eq!(
        campaign["files"].as_array().unwrap().len(),
        2,
        "{campaign:#}"
    );
    assert_eq!(fs::read(dir.path("pool2")).unwrap(), second);
}
