//! Recoveries that are explored with copies of their processes.

use std::time::Duration;

use brownout_recovery::{
    Attempt, ByteRanges, Expectation, FirstRead, ReadGuide, RecoveryRunner, RecoveryTask, Sandbox,
    Verdict,
};
use brownout_trace::replay::Content;

use super::*;

/// Reads the first byte of the pool, and then the other that its second argument says.
const READER: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int fd = open(argv[1], O_RDWR);
    volatile char *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char link[32] = "";
    volatile char sink = pool[0];
    if (!strcmp(argv[2], "process")) readlinkat(AT_FDCWD, "/proc/self", link, sizeof link - 1);
    sink = pool[64 + atoi(link) % 64];
    return 0;
}
"#;

/// Wants no read again: copies are made at the first one only.
struct NoRead;

impl ReadGuide for NoRead {
    fn read(&mut self, _: FirstRead, _: &[u8]) -> bool {
        false
    }
}

/// Runs recovery on images with these first bytes, and so many bytes.
fn attempts(how: &str, images: &[(u8, u64)]) -> Vec<Attempt> {
    let fixture = Fixture::set_up();
    let program = fixture.compile("reader", READER);
    let recovery = fixture.recovery(&format!("{} {{pm}} {how}", program.display()));
    let sandbox = Sandbox::start(&sandbox_server(), &recovery, &fixture.files()).unwrap();
    let mut runner = RecoveryRunner::new(sandbox, recovery, Expectation::default());
    let task = RecoveryTask {
        environment: Vec::new(),
        operations: 0..=0,
        time_limit: Duration::from_secs(60),
    };
    let mut wanted = ByteRanges::exact();
    wanted.insert(0..128);
    let attempt = |&(first, len): &(u8, u64)| {
        let mut content = Content::default();
        content.resize(len);
        content.write(0, &[first]);
        let image = [Some(content), None];
        let attempt = runner.attempt_branch(&image, &task, &[wanted.clone()], &mut NoRead);
        attempt.unwrap()
    };
    images.iter().map(attempt).collect()
}

fn copies(attempts: &[Attempt]) -> Vec<bool> {
    let observations = attempts.iter().map(|attempt| attempt.observation.as_ref());
    observations.map(|known| known.unwrap().is_copy).collect()
}

#[test]
fn copies_that_do_not_read_the_same_next_contradict_each_other() {
    if !layers_are_possible() {
        return;
    }
    // The second run starts anew to check whether it does the same.
    let images = [(0, 4096); 3];
    for (how, contradicted) in [("same", false), ("process", true)] {
        let attempts = attempts(how, &images);
        assert!(
            attempts
                .iter()
                .all(|attempt| attempt.verdict == Verdict::Passed)
        );
        let last = attempts[2].observation.as_ref().unwrap();
        assert_eq!(last.is_contradicted, contradicted, "{how}: {last:?}");
        assert_eq!(last.is_copy, !contradicted, "{how}");
    }
}

/// Crashes inside different operations lead to different starts, which take turns.
#[test]
fn starts_that_take_turns_keep_their_processes() {
    if !layers_are_possible() {
        return;
    }
    // The second, the fourth and the eighth run start anew to check whether they do the same.
    let images = [
        (0, 4096),
        (0, 4096),
        (0, 8192),
        (0, 4096),
        (1, 4096),
        (1, 8192),
    ];
    let attempts = attempts("same", &images);
    assert_eq!(copies(&attempts), [false, false, false, false, true, true]);
}
