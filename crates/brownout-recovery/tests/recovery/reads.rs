//! What recoveries open and read, as a run under the engine shows it.
#![allow(
    clippy::single_range_in_vec_init,
    reason = "a list of one range is meant"
)]

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use brownout_recovery::{
    Attempt, EngineRun, Expectation, FileReads, Isolation, RecoveryReads, RecoveryRunner,
    RecoveryTask, Sandbox, Verdict,
};
use brownout_trace::replay::Content;

use super::*;

/// Reads the file in the way that its second argument says.
const READER: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
static volatile uint64_t sink;
int main(int argc, char **argv) {
    char buffer[4096];
    struct stat stat_buffer;
    const char *how = argv[2];
#define is(name) (!strcmp(how, name))
    if (is("stat")) return stat(argv[1], &stat_buffer) != 0;
    int fd = open(argv[1], strstr(how, "shared") ? O_RDWR : O_RDONLY);
    if (fd < 0) return 1;
    if (is("open")) return 0;
    if (is("read")) return !(lseek(fd, 100, SEEK_SET) == 100 && read(fd, buffer, 10) == 10);
    if (is("pread")) return pread(fd, buffer, 24, 1000) != 24;
    if (is("readv")) {
        struct iovec two[2] = {{buffer, 4}, {buffer + 8, 4}};
        return preadv(fd, two, 2, 16) != 8;
    }
    int out = open("/dev/null", O_WRONLY);
    off_t at = 512;
    if (is("sendfile")) return sendfile(out, fd, &at, 64) != 64;
    int both[2];
    if (is("splice")) return pipe(both) || splice(fd, &at, both[1], 0, 32, 0) != 32;
    int shared = strstr(how, "private") == 0;
    int prot = strstr(how, "shared") ? PROT_READ | PROT_WRITE : PROT_READ;
    char *pool = mmap(0, 8192, prot, shared ? MAP_SHARED : MAP_PRIVATE, fd, 0);
    if (pool == MAP_FAILED) return 1;
    volatile uint64_t *word = (volatile uint64_t *)(pool + 128);
    if (is("shared load") || is("read-only load") || is("private load")) sink = *word;
    if (is("shared store")) *word = 7;
    if (is("shared store and load")) { *word = 7; sink = word[0] + word[1]; }
    if (is("shared add")) __asm__ volatile("addq $1, %0" : "+m"(*word));
    if (is("shared exchange")) __atomic_exchange_n(word, 7, __ATOMIC_SEQ_CST);
    if (is("shared compare")) __sync_bool_compare_and_swap(word, 5, 7);
    if (is("shared compare")) __sync_bool_compare_and_swap(word + 8, 0, 7);
    if (is("shared in order")) { word[3] = 1; sink = word[2] + word[0]; sink = word[1] + word[3]; sink = word[2]; }
    if (is("shared copy")) { memcpy(buffer, pool + 4000, 200); sink = buffer[3]; }
    if (is("shared cut")) { if (ftruncate(fd, 100) || ftruncate(fd, 8192)) return 1; sink = *word + word[-8]; }
    if (is("shared register")) return syscall(SYS_sched_yield, pool + 64) != 0;
    if (is("shared write")) return write(1, pool + 4090, 20) != 20;
    if (is("shared writev")) {
        struct iovec one = {pool + 64, 16};
        return writev(1, &one, 1) != 16;
    }
    return 0;
}
"#;

/// Runs a recovery on a pool of two pages, and none in place of the second.
fn observed(runner: &mut RecoveryRunner) -> (Attempt, Option<RecoveryReads>) {
    let mut content = Content::default();
    content.resize(8192);
    let task = RecoveryTask {
        environment: Vec::new(),
        operations: 0..=0,
        time_limit: Duration::from_secs(60),
    };
    runner.observe_reads(&[Some(content), None], &task).unwrap()
}

fn runner(fixture: &Fixture, command: &str, isolation: Isolation) -> RecoveryRunner {
    let recovery = fixture.recovery(command);
    let server = sandbox_server().at_most(isolation);
    let sandbox = Sandbox::start(&server, &recovery, &fixture.files()).unwrap();
    RecoveryRunner::new(sandbox, recovery, Expectation::default())
}

/// What a recovery that passes has read of the pool, and nothing may be missing.
fn pool_reads(fixture: &Fixture, command: &str, isolation: Isolation) -> FileReads {
    let (attempt, reads) = observed(&mut runner(fixture, command, isolation));
    assert_eq!(attempt.verdict, Verdict::Passed, "{command}: {attempt:?}");
    let mut reads = reads.unwrap();
    assert_eq!(reads.gaps, [""; 0], "{command}");
    assert_eq!(
        reads.files.len(),
        1,
        "a file that does not exist is no file"
    );
    let pool = reads.files.remove(0);
    assert_eq!(pool.path, fixture.files()[0]);
    pool
}

fn ranges(reads: &FileReads) -> Vec<Range<u64>> {
    reads.ranges.ranges().collect()
}

#[test]
fn every_way_to_read_is_seen() {
    let fixture = Fixture::set_up();
    let program = fixture.compile("reader", READER);
    let all = 0..8192;
    let ways = [
        ("stat", vec![]),
        ("open", vec![]),
        ("read", vec![100..110]),
        ("pread", vec![1000..1024]),
        ("readv", vec![16..24]),
        ("sendfile", vec![512..576]),
        ("splice", vec![512..544]),
        ("shared load", vec![128..136]),
        ("read-only load", vec![128..136]),
        ("private load", vec![all.clone()]),
        ("shared store", vec![]),
        // What recovery wrote itself is its own.
        ("shared store and load", vec![136..144]),
        // What is behind the end of a file that was cut is gone, and zeros take its place.
        ("shared cut", vec![64..72]),
        ("shared add", vec![128..136]),
        ("shared exchange", vec![128..136]),
        ("shared copy", vec![4000..4200]),
        // A register that is no argument of the call.
        ("shared register", vec![]),
        ("shared write", vec![4090..4110]),
        ("shared writev", vec![64..80]),
    ];
    for (how, expected) in ways {
        let command = format!("{} {{pm}} '{how}'", program.display());
        let reads = pool_reads(&fixture, &command, Isolation::Layered);
        assert!(reads.opened, "{how}");
        assert_eq!(ranges(&reads), expected, "{how}");
    }
    let command = format!("{} {{pm}} pread", program.display());
    let reads = pool_reads(&fixture, &command, Isolation::Directory);
    assert_eq!(ranges(&reads), [1000..1024]);
    fixture.assert_untouched();
}

#[test]
fn commands_of_a_script_are_followed() {
    let fixture = Fixture::set_up();
    let whole = vec![0..8192];
    for (command, expected) in [
        ("cat {pm} | wc -c", whole.clone()),
        ("cp {pm} copy && cmp {pm} copy", whole.clone()),
        ("dd if={pm} of=/dev/null bs=8 skip=3 count=2", vec![24..40]),
        ("head -c 0 < {pm}", vec![]),
    ] {
        let reads = pool_reads(&fixture, command, Isolation::Layered);
        assert!(reads.opened, "{command}");
        assert_eq!(ranges(&reads), expected, "{command}");
    }
    // What is left behind is killed, not waited for.
    for command in [
        "true # {pm}",
        "cat bystander # {pm}",
        "sleep 1000 & true # {pm}",
    ] {
        let reads = pool_reads(&fixture, command, Isolation::Layered);
        assert!(!reads.opened && ranges(&reads).is_empty(), "{command}");
    }
}

#[test]
fn what_is_not_known_is_not_made_up() {
    let fixture = Fixture::set_up();
    let mut failing = runner(&fixture, "cat {pm} >copy; exit 3", Isolation::Layered);
    let (attempt, reads) = observed(&mut failing);
    assert_eq!(attempt.verdict, Verdict::Failed(3));
    assert_eq!(reads.unwrap().files[0].ranges.bytes(), 8192);

    let mut hanging = runner(&fixture, "cat {pm}; sleep 1000", Isolation::Layered);
    let task = RecoveryTask {
        environment: Vec::new(),
        operations: 0..=0,
        time_limit: Duration::from_secs(2),
    };
    let (attempt, reads) = hanging.observe_reads(&[None, None], &task).unwrap();
    assert_eq!(attempt.verdict, Verdict::Hung);
    assert_eq!(reads, None);
}

#[test]
fn the_client_of_a_server_is_a_gap() {
    let fixture = Fixture::set_up();
    let mut recovery = fixture.recovery("cat {pm} >copy; sleep 1000");
    recovery.client = Some("until test -s copy; do sleep 0.1; done".to_owned());
    recovery.stop_grace = Duration::from_secs(60);
    let sandbox = Sandbox::start(&sandbox_server(), &recovery, &fixture.files()).unwrap();
    let mut runner = RecoveryRunner::new(sandbox, recovery, Expectation::default());
    let (attempt, reads) = observed(&mut runner);
    assert_eq!(attempt.verdict, Verdict::Passed);
    let reads = reads.unwrap();
    assert!(reads.gaps[0].contains("client"), "{reads:?}");
    assert_eq!(reads.never_opened().count(), 0);
}

#[test]
fn reads_and_traces_do_not_disturb_each_other() {
    let fixture = Fixture::set_up();
    let mut runner = runner(&fixture, "cat {pm}", Isolation::Layered);
    let task = RecoveryTask {
        environment: Vec::new(),
        operations: 0..=0,
        time_limit: Duration::from_secs(60),
    };
    let trace: Arc<File> = Arc::new(tempfile::tempfile().unwrap());
    let engine = EngineRun {
        loads: true,
        trace: Some(Arc::clone(&trace)),
        reads: None,
        held: false,
        input: false,
    };
    let image = [Some(Content::default()), None];
    runner.run_under_engine(&image, &task, engine).unwrap();
    assert!(trace.metadata().unwrap().len() > 0);
    let (_, reads) = runner.observe_reads(&image, &task).unwrap();
    assert!(reads.unwrap().files[0].opened);
    assert!(runner.attempt(&image, &task).unwrap().verdict.passed());
}
