//! `--schedule` and `--schedules`: one order of threads, or several.

use std::path::Path;
use std::process::{Command, Output};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus");

/// A program of the corpus in a directory of its own.
struct BuiltProgram {
    directory: tempfile::TempDir,
}

impl BuiltProgram {
    fn new(name: &str) -> Self {
        Self::of_file(&Path::new(CORPUS).join(name))
    }

    /// A program that is not in the corpus.
    fn of_source(source: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("program.c");
        std::fs::write(&file, source).unwrap();
        Self::of_file(&file)
    }

    fn of_file(source: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-g", "-pthread", "-DNO_CLWB", "-o"]);
        compiler.arg(directory.path().join("program"));
        compiler.arg(source);
        assert!(compiler.status().unwrap().success(), "{source:?}");
        Self { directory }
    }

    fn brownout(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_brownout"));
        command.args(arguments).current_dir(self.directory.path());
        command.output().unwrap()
    }

    /// Runs brownout on the program, without a pool of an earlier run.
    fn run(&self, arguments: &[&str]) -> Output {
        let _ = std::fs::remove_file(self.directory.path().join("pool"));
        self.brownout(&[arguments, &["--", "./program", "pool"]].concat())
    }

    fn finding(&self) -> serde_json::Value {
        let mut findings = self.findings("brownout.out");
        assert_eq!(findings.len(), 1, "{findings:?}");
        findings.remove(0)
    }

    /// The findings in a results directory.
    fn findings(&self, directory: &str) -> Vec<serde_json::Value> {
        let path = self.directory.path().join(directory);
        let findings = std::fs::read_to_string(path.join("findings.jsonl")).unwrap();
        let findings = findings.lines().map(serde_json::from_str);
        findings.collect::<Result<_, _>>().unwrap()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_recording_is_compared_with_an_earlier_one_of_the_same_schedule() {
    let program = BuiltProgram::new("missing-flush/only_if_threads_meet.c");
    let first = program.run(&["record", "--schedule", "2:102", "-o", "first"]);
    assert!(first.status.success(), "{}", stderr(&first));
    if stderr(&first).contains("addresses, which this system cannot fix") {
        // Then no two recordings are the same.
        return;
    }
    let same = ["record", "--same-as", "first", "--schedule"];
    let again = program.run(&[&same[..], &["2:102", "-o", "again"]].concat());
    assert!(again.status.success(), "{}", stderr(&again));
    assert!(stderr(&again).contains("the same events as in `first`"));

    let other = program.run(&[&same[..], &["1", "-o", "other"]].concat());
    assert_eq!(other.status.code(), Some(3), "{}", stderr(&other));
    let text = stderr(&other);
    assert!(
        text.contains("differs from `first`, first at event"),
        "{text}"
    );
    assert!(text.contains("there: thread"), "{text}");

    let options = ["--shared-loads", "--watch", "main", "--schedule", "2:102"];
    let differing = program.run(&[&same[..3], &options, &["-o", "other"]].concat());
    assert_eq!(differing.status.code(), Some(3), "{}", stderr(&differing));
    let text = stderr(&differing);
    assert!(
        text.contains("`first` was recorded with other options"),
        "{text}"
    );
    assert!(text.contains("loads that threads share"), "{text}");
    assert!(text.contains("calls of main"), "{text}");
    assert!(!text.contains("first at event"), "{text}");

    let itself = program.run(&[&same[..], &["2:102", "-o", "first"]].concat());
    assert_eq!(itself.status.code(), Some(2), "{}", stderr(&itself));
}

#[test]
fn the_schedule_of_a_finding_shows_it_again() {
    let program = BuiltProgram::new("missing-flush/only_if_threads_meet.c");
    let swept = program.run(&["check", "--schedules", "8"]);
    assert_eq!(swept.status.code(), Some(1), "{}", stderr(&swept));
    let found = program.finding();
    let schedule = found["evidence"]["details"]["schedule"].as_str().unwrap();
    let once = program.run(&["check", "--schedule", schedule]);
    assert_eq!(once.status.code(), Some(1), "{}", stderr(&once));
    assert_eq!(program.finding()["id"], found["id"]);
    let parts = std::fs::read_dir(program.directory.path().join("brownout.out")).unwrap();
    let is_part = |entry: &std::fs::DirEntry| entry.path().is_dir();
    let parts: Vec<_> = parts.flatten().filter(is_part).collect();
    assert!(parts.is_empty(), "of the earlier run: {parts:?}");
}

#[test]
fn each_schedule_finds_the_files_that_the_first_one_found() {
    let program = BuiltProgram::new("clean/missing_flush_if_threads_meet.c");
    let pool = program.directory.path().join("pool");
    let mut content = vec![0x55; 65536];
    content[4096..].fill(0);
    std::fs::write(&pool, &content).unwrap();
    let swept = program.brownout(&["check", "--schedules", "3", "--", "./program", "pool"]);
    assert!(swept.status.success(), "{}", stderr(&swept));
    for trace in ["trace", "schedule-2/trace", "schedule-3/trace"] {
        let trace = format!("brownout.out/{trace}");
        let dump = program.brownout(&["dump", &trace, "--full"]);
        let text = String::from_utf8_lossy(&dump.stdout).into_owned();
        let content = text.lines().filter(|line| line.contains(" content "));
        let mut initial = content.filter(|line| line.contains("pool:0x0"));
        let first = initial.next().unwrap_or_default();
        let (_, bytes) = first.split_once("] ").unwrap_or_default();
        assert!(bytes.starts_with(&"55".repeat(4096)), "{trace}");
        assert_eq!(initial.next(), None, "{trace}");
    }
}

/// Two threads store to the first page of a file. Its other pages are never mapped; the second is written with a system call if a
/// further argument says so.
const FIRST_PAGE: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <immintrin.h>

static uint64_t *pool;

static void *count(void *number) {
    for (int i = 0; i < 3; i++) {
        pool[8 * (long)number] += 1;
        _mm_clflush(&pool[8 * (long)number]);
        _mm_sfence();
    }
    return 0;
}

int main(int count_of_words, char **words) {
    int file = open(words[1], O_RDWR);
    char page[4096];
    memset(page, 7, sizeof page);
    pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, count, (void *)i);
    for (long i = 0; i < 2; i++) pthread_join(threads[i], 0);
    if (count_of_words > 2 && pwrite(file, page, sizeof page, 4096) != sizeof page) return 1;
}
"#;

/// A sweep of a program whose file is there before, and what the file holds afterwards.
fn swept_file(options: &[&str]) -> (BuiltProgram, Output, Vec<u8>) {
    let program = BuiltProgram::of_source(FIRST_PAGE);
    let pool = program.directory.path().join("pool");
    // As young as a file can be that the program has not created.
    std::fs::write(&pool, [0x55; 65536]).unwrap();
    let check = ["check", "--schedules", "3", "--", "./program", "pool"];
    let swept = program.brownout(&[&check, options].concat());
    let left = std::fs::read(&pool).unwrap();
    (program, swept, left)
}

#[test]
fn parts_of_a_file_that_the_program_never_maps_stay_as_they_are() {
    let (program, swept, left) = swept_file(&[]);
    assert!(swept.status.success(), "{}", stderr(&swept));
    assert_eq!(left.len(), 65536);
    assert!(left[4096..].iter().all(|&byte| byte == 0x55));
    // Each run has counted from what the first one found.
    assert_eq!(left[..2], [0x58, 0x55]);
    assert!(
        program
            .directory
            .path()
            .join("brownout.out/schedule-3")
            .is_dir()
    );
}

#[test]
fn a_file_that_cannot_be_restored_is_left_as_it_is() {
    let (program, swept, left) = swept_file(&["write"]);
    let text = stderr(&swept);
    assert_eq!(swept.status.code(), Some(3), "{text}");
    assert!(
        text.contains("cannot be restored for another run"),
        "{text}"
    );
    assert!(left[4096..8192].iter().all(|&byte| byte == 7));
    assert!(left[8192..].iter().all(|&byte| byte == 0x55));
    assert_eq!(left[..2], [0x58, 0x55]);
    assert!(
        !program
            .directory
            .path()
            .join("brownout.out/schedule-2")
            .exists()
    );
    let run = program.directory.path().join("brownout.out/run.json");
    let run: serde_json::Value = serde_json::from_slice(&std::fs::read(run).unwrap()).unwrap();
    assert_eq!(
        run["reason_kinds"],
        serde_json::json!(["other-schedule"]),
        "{run}"
    );
}

/// Two threads take two locks in opposite orders. They wait for each other only if one is preempted between.
const SELDOM_CROSSED: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#include <immintrin.h>

static uint64_t *pool;
static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static void store(uint64_t *at) { *at = 1; _mm_clflush(at); _mm_sfence(); }

static void *cross(void *number) {
    long own = (long)number;
    for (int i = 0; i < 4; i++) store(&pool[8 * own]);
    pthread_mutex_lock(&locks[own]);
    store(&pool[8 * own]);
    pthread_mutex_lock(&locks[1 - own]);
    store(&pool[8 * own]);
    pthread_mutex_unlock(&locks[1 - own]);
    pthread_mutex_unlock(&locks[own]);
    for (int i = 0; i < 4; i++) store(&pool[8 * own]);
    return 0;
}

int main(int count, char **words) {
    if (count > 2) return 0;
    int file = open(words[count - 1], O_RDWR | O_CREAT, 0600);
    if (ftruncate(file, 4096)) return 1;
    pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    store(&pool[16]);
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, cross, (void *)i);
    for (long i = 0; i < 2; i++) pthread_join(threads[i], 0);
}
"#;

#[test]
fn a_failure_under_another_schedule_outlives_later_commands() {
    let program = BuiltProgram::of_source(SELDOM_CROSSED);
    let swept = program.run(&["check", "--schedules", "12"]);
    let text = stderr(&swept);
    assert_eq!(swept.status.code(), Some(4), "{text}");
    assert!(!text.contains("deadlock under schedule 1:"), "{text}");
    let recovery = ["--recover", "test -s {pm} && ./program {pm} check"];
    for command in [
        &["lint", "brownout.out", "--out", "brownout.out"][..],
        &["race", "brownout.out", "--out", "brownout.out"],
        &[&["crash", "brownout.out"], &recovery[..]].concat(),
        &["lint", "brownout.out", "--out", "brownout.out"],
        &["merge", "brownout.out", "--out", "merged"],
        &["report", "merged"],
    ] {
        let later = program.brownout(command);
        let text = stderr(&later);
        assert_eq!(later.status.code(), Some(4), "{command:?}: {text}");
        assert!(
            text.contains("deadlock under schedule"),
            "{command:?}: {text}"
        );
    }
}

#[test]
fn findings_of_other_schedules_outlive_later_commands() {
    let program = BuiltProgram::new("missing-flush/only_if_threads_meet.c");
    let swept = program.run(&["check", "--schedules", "8"]);
    assert_eq!(swept.status.code(), Some(1), "{}", stderr(&swept));
    let found = program.finding();
    assert!(
        found["evidence"]["details"]["results in"].is_string(),
        "{found}"
    );
    for command in ["lint", "race"] {
        let later = program.brownout(&[command, "brownout.out", "--out", "brownout.out"]);
        assert_eq!(
            later.status.code(),
            Some(1),
            "{command}: {}",
            stderr(&later)
        );
        assert_eq!(program.finding()["id"], found["id"], "{command}");
    }
    let off = "[rules]\nmissing-flush = \"off\"\n";
    std::fs::write(program.directory.path().join("off.toml"), off).unwrap();
    let lint = [
        "lint",
        "brownout.out",
        "--out",
        "brownout.out",
        "--config",
        "off.toml",
    ];
    let without = program.brownout(&lint);
    // What `race` could not do is still missing.
    assert_eq!(without.status.code(), Some(3), "{}", stderr(&without));
    assert!(program.findings("brownout.out").is_empty());
}

#[test]
fn a_crash_that_only_another_schedule_shows_is_replayed() {
    let program = BuiltProgram::new("recovery-failed/only_if_threads_meet.c");
    let recover = ["--recover", "./program pool check"];
    let swept = program.run(&[&["check", "--schedules", "8"][..], &recover].concat());
    assert_eq!(swept.status.code(), Some(1), "{}", stderr(&swept));
    let found = program.finding();
    assert_eq!(found["rule"], "recovery-failed");
    let id = found["id"].as_str().unwrap();
    let replay = program.brownout(&["replay", "brownout.out", id]);
    let text = String::from_utf8_lossy(&replay.stdout).into_owned() + &stderr(&replay);
    assert!(text.contains("it does not hold"), "{text}");
    if let Some(part) = found["evidence"]["details"]["results in"].as_str() {
        let shown = stderr(&swept);
        assert!(
            shown.contains(&format!("brownout replay brownout.out/{part} {id}")),
            "{shown}"
        );
    }
}

#[test]
fn bad_schedules_are_refused() {
    let program = BuiltProgram::new("clean/missing_flush_if_threads_meet.c");
    for arguments in [
        &["record", "-o", "t", "--schedule", "x"][..],
        &["record", "-o", "t", "--schedule", "1:0"],
        &["record", "-o", "t", "--same-as", "t"],
        &["check", "--schedules", "0"],
        &["check", "--schedules", "2", "--schedule", "1"],
        &["check", "--schedules", "2", "--resume"],
    ] {
        let refused = program.run(arguments);
        assert_eq!(
            refused.status.code(),
            Some(2),
            "{arguments:?}: {}",
            stderr(&refused)
        );
    }
}

/// What one thread stores, another copies: only some orders let it read a value that is not durable.
const COPIES: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#include <immintrin.h>

static struct { uint64_t original, padding[7], copy; } *pool;

static void persist(void *at) { _mm_clflush(at); _mm_sfence(); }

static void *stores(void *unused) {
    for (uint64_t i = 1; i <= 3; i++) {
        __atomic_store_n(&pool->original, i * 0x1234567890abc, __ATOMIC_SEQ_CST);
        persist(&pool->original);
    }
    return unused;
}

static void *copies(void *unused) {
    for (int i = 0; i < 3; i++) {
        pool->copy = __atomic_load_n(&pool->original, __ATOMIC_SEQ_CST);
        persist(&pool->copy);
    }
    return unused;
}

int main(int count, char **words) {
    int file = open(words[count - 1], O_RDWR | O_CREAT, 0600);
    if (ftruncate(file, 4096)) return 1;
    pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    pool->original = 0;
    persist(&pool->original);
    pthread_t threads[2];
    pthread_create(&threads[0], 0, stores, 0);
    pthread_create(&threads[1], 0, copies, 0);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
}
"#;

#[test]
fn a_bug_of_one_schedule_is_not_hidden_by_a_warning_of_another() {
    let program = BuiltProgram::of_source(COPIES);
    let swept = program.run(&["check", "--schedules", "12"]);
    let races = |directory: &str| {
        let mut found = program.findings(directory);
        found.retain(|finding| finding["rule"] == "persistency-race");
        found
    };
    let others = (2..=12).map(|seed| format!("brownout.out/schedule-{seed}"));
    let other_races: Vec<_> = others.map(|part| races(&part)).collect();
    let joined = races("brownout.out");
    assert_eq!(joined.len(), 1, "{joined:?}");
    let mut all = other_races.iter().flatten();
    let id = &joined[0]["id"];
    let bug = all.find(|race| race["severity"] == "bug" && race["id"] == *id);
    let bug = bug.expect("one of the schedules lets the threads meet");
    let run = program.run(&["check", "--schedule", "1", "--out", "first"]);
    assert!(run.status.success(), "{}", stderr(&run));
    let first = races("first");
    assert_eq!(first[0]["severity"], "warning");

    assert_eq!(swept.status.code(), Some(1), "{}", stderr(&swept));
    for field in ["severity", "message", "stacks", "replay"] {
        assert_eq!(joined[0][field], bug[field], "{field}");
    }
    let details = |race: &serde_json::Value| race["evidence"]["details"].clone();
    for detail in ["race", "schedule"] {
        assert_eq!(details(&joined[0])[detail], details(bug)[detail]);
    }
    assert!(details(&joined[0])["results in"].is_string());
    let counts = other_races.iter().chain([&first]).flatten();
    let seen: u64 = counts.filter_map(|race| race["count"].as_u64()).sum();
    assert_eq!(joined[0]["count"], seen);
}

/// Each of two threads takes the lock of the other while it has its own.
const CROSSED_LOCKS: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#include <immintrin.h>

static uint64_t *pool;
static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_barrier_t both;

static void *cross(void *number) {
    long own = (long)number;
    pthread_mutex_lock(&locks[own]);
    pool[8 * own] = 1;
    _mm_clflush(&pool[8 * own]);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&locks[1 - own]);
    return 0;
}

int main(int count, char **words) {
    int file = open(words[count - 1], O_RDWR | O_CREAT, 0600);
    if (ftruncate(file, 4096)) return 1;
    pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    pthread_barrier_init(&both, 0, 2);
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, cross, (void *)i);
    for (long i = 0; i < 2; i++) pthread_join(threads[i], 0);
}
"#;

#[test]
fn a_deadlock_is_named_and_ends_the_program() {
    use std::os::unix::process::ExitStatusExt as _;
    let program = BuiltProgram::of_source(CROSSED_LOCKS);
    let sentence = |schedule: &str| {
        format!("deadlock under schedule {schedule}: all 3 threads of the program wait")
    };
    let recorded = program.run(&["record", "--schedule", "3:50", "-o", "trace"]);
    let text = stderr(&recorded);
    assert_eq!(recorded.status.signal(), Some(9), "{text}");
    assert!(text.contains(&sentence("3:50")), "{text}");
    let dump = program.brownout(&["dump", "trace"]);
    let events = String::from_utf8_lossy(&dump.stdout).into_owned();
    assert!(dump.status.success(), "{}", stderr(&dump));
    let stores = events.lines().filter(|line| line.contains(" store "));
    assert_eq!(stores.count(), 2, "{events}");
    assert!(events.contains(&sentence("3:50")), "{events}");
    assert!(events.contains("killed by SIGKILL"), "{events}");

    let swept = program.run(&["check", "--schedules", "2"]);
    let text = stderr(&swept);
    assert_eq!(swept.status.code(), Some(4), "{text}");
    assert!(text.contains(&sentence("1")), "{text}");
    assert!(text.contains("schedule 2:"), "{text}");
}

/// A thread that waits for a condition is cancelled, or a signal handler wakes it.
const ENDED_WAITS: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static sem_t never, woken;

static void *waits(void *unused) { sem_wait(&never); return unused; }

static void handler(int signal) { (void)signal; sem_post(&woken); }

static void *sends(void *to) {
    pthread_kill(*(pthread_t *)to, SIGUSR1);
    return 0;
}

int main(int count, char **words) {
    int file = open(words[count - 1], O_RDWR | O_CREAT, 0600);
    if (ftruncate(file, 4096)) return 1;
    mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    pthread_t thread, self = pthread_self();
    pthread_create(&thread, 0, waits, 0);
    sched_yield();
    pthread_cancel(thread);
    pthread_join(thread, 0);
    signal(SIGUSR1, handler);
    pthread_create(&thread, 0, sends, &self);
    while (sem_wait(&woken)) if (errno != EINTR) return 2;
    pthread_join(thread, 0);
}
"#;

#[test]
fn a_wait_that_a_signal_ends_is_no_deadlock() {
    let program = BuiltProgram::of_source(ENDED_WAITS);
    for seed in ["1", "2", "3"] {
        let recorded = program.run(&["record", "--schedule", seed, "-o", "trace"]);
        let text = stderr(&recorded);
        assert!(recorded.status.success(), "{text}");
        assert!(!text.contains("deadlock"), "{text}");
    }
}
