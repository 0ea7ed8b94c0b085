//! `brownout race --confirm`: the program runs again while the storing thread is held, and recovery runs after a crash at the instant at
//! which the reader has acted.

#[path = "../test_dir/mod.rs"]
mod test_dir;

use serde_json::Value;
use test_dir::TestDir;

const RECOVER: &str = "./ledger pool check";

impl TestDir {
    /// Records the ledger in this mode.
    fn recorded(mode: &str) -> Self {
        Self::recorded_program("ledger", mode)
    }

    /// Records a program in this mode.
    fn recorded_program(name: &str, mode: &str) -> Self {
        let source = format!("race_confirmation/{name}.c");
        let dir = Self::with(&source, &["-g", "-pthread"]);
        dir.record(&format!("./{name}"), mode);
        dir
    }

    /// Records a program that is there already.
    fn record(&self, program: &str, mode: &str) {
        let record = ["record", "-q", "--loads", "-o", "trace", "--"];
        let recorded = self.brownout(&[&record[..], &[program, "pool", mode]].concat());
        assert_eq!(recorded.status, Some(0), "{}", recorded.stderr);
    }

    /// The race that is left when it was tried to force all.
    fn confirm(&self, options: &[&str]) -> Value {
        let race = ["race", "trace", "--confirm", "--out", "brownout.out"];
        let done = self.brownout(&[&race[..], options].concat());
        let mut found = self.findings();
        assert_eq!(found.len(), 1, "{}{}", done.stdout, done.stderr);
        found.remove(0)
    }
}

fn detail<'f>(finding: &'f Value, name: &str) -> &'f str {
    finding["evidence"]["details"][name].as_str().unwrap_or("")
}

#[test]
fn a_race_that_recovery_cannot_cope_with_is_confirmed_and_replayed() {
    let dir = TestDir::recorded("late");
    let before = std::fs::read(dir.path("pool")).unwrap();
    let race = dir.confirm(&["--recover", RECOVER]);
    assert_eq!(race["confirmed"], true, "{race:#}");
    assert_eq!(race["severity"], "bug");
    assert!(detail(&race, "confirmed").contains("recovery fails with exit status 1"));
    assert_eq!(detail(&race, "last output"), "the book is ahead of the sum");
    // The program ran on copies.
    assert!(std::fs::read(dir.path("pool")).unwrap() == before);
    let id = race["id"].as_str().unwrap();
    let replayed = dir.brownout(&["replay", "brownout.out", id]);
    assert_eq!(replayed.status, Some(1), "{}", replayed.stderr);
    let kept = dir.brownout(&["replay", "brownout.out", id, "--keep", "image"]);
    assert_eq!(kept.status, Some(0), "{}", kept.stderr);
    let image = std::fs::read(dir.path("image")).unwrap();
    let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
    assert!(word(4096) > word(0), "the book has what the sum has lost");
    for file in ["report.html", "report.sarif"] {
        let text = dir.read(&format!("brownout.out/{file}"));
        assert!(text.contains("the storing thread was held"), "{file}");
    }
}

#[test]
fn without_recovery_a_race_is_reproduced() {
    let dir = TestDir::recorded("late");
    let race = dir.confirm(&[]);
    assert!(
        detail(&race, "forced").starts_with("reproduced: "),
        "{race:#}"
    );
    assert_eq!(race.get("confirmed"), None);
    // What the reader has made durable is a copy of what it has read.
    assert_eq!(race["severity"], "bug");
    // A trace that no finding refers to is not kept.
    let id = race["id"].as_str().unwrap();
    assert!(
        !dir.path("brownout.out")
            .join(format!("forced-{id}"))
            .exists()
    );
}

#[test]
fn a_reader_that_does_nothing_does_not_reproduce_a_race() {
    let dir = TestDir::recorded("idle");
    let race = dir.confirm(&["--recover", RECOVER, "--confirm-time-limit", "20s"]);
    let forced = detail(&race, "forced");
    assert!(
        forced.starts_with("not reproduced: the reader has loaded it"),
        "{race:#}"
    );
    assert_eq!(race["severity"], "warning");
}

#[test]
fn a_store_that_is_durable_in_time_has_no_race_to_force() {
    let dir = TestDir::recorded("early");
    let done = dir.brownout(&["race", "trace", "--confirm", "--recover", RECOVER]);
    assert_eq!(done.status, Some(0), "{}{}", done.stdout, done.stderr);
    let without = dir.brownout(&["race", "trace", "--recover", RECOVER]);
    assert_eq!(
        without.status,
        Some(2),
        "--recover has no effect without --confirm"
    );
}

#[test]
fn a_reader_that_waits_for_a_lock_of_the_storing_thread_is_blocked() {
    let dir = TestDir::recorded_program("gate", "reader");
    let race = dir.confirm(&[]);
    let forced = detail(&race, "forced");
    assert!(forced.starts_with("blocked: "), "{race:#}");
    // That it waited in one run does not show that it always waits.
    assert_eq!(race["severity"], "warning");
}

#[test]
fn a_thread_that_waits_and_never_reads_blocks_no_race() {
    let dir = TestDir::recorded_program("gate", "other");
    let race = dir.confirm(&[]);
    let forced = detail(&race, "forced");
    assert!(
        forced.starts_with("not reproduced: no other thread loaded it"),
        "{race:#}"
    );
    // The real reason, not the time that there would have been.
    assert!(forced.contains("; the run ended after "), "{race:#}");
    assert_eq!(race["severity"], "warning");
}

#[test]
fn the_program_runs_again_from_all_that_the_files_held() {
    let dir = TestDir::with("race_confirmation/ledger.c", &["-g", "-pthread"]);
    let mut pool = vec![0; 8192];
    pool[4096] = 1;
    std::fs::write(dir.path("pool"), pool).unwrap();
    dir.record("./ledger", "again");
    let race = dir.confirm(&[]);
    let forced = detail(&race, "forced");
    assert!(forced.starts_with("reproduced: "), "{race:#}");
}
