//! Recoveries: a few statements in C that find the mapped pool in `pool` and its descriptor in `fd`.

use brownout_engine::Repetition;
use brownout_engine::explore::{
    BranchEnd, ExplorationStep, ExploreOptions, ExploredTarget, OpenFile, Question,
};
use brownout_trace::ProcessEnd;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The first open byte and the end.
pub type OpenRange = (u64, u64);

const POOL_BYTES: usize = 256 << 10;

const HEAD: &str = "
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR);
  volatile uint64_t *pool = mmap(0, 262144, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd < 0 || pool == MAP_FAILED) return 99;
";

pub struct Recovery {
    directory: tempfile::TempDir,
}

impl Recovery {
    /// Compiles the recovery. The pool holds zeros.
    pub fn new(statements: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("recovery.c");
        fs::write(&source, format!("{HEAD}{statements}\nreturn 0;\n}}\n")).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-w", "-o"]);
        compiler.args([directory.path().join("recovery"), source]);
        assert!(compiler.status().unwrap().success(), "{statements}");
        fs::write(directory.path().join("pool"), vec![0; POOL_BYTES]).unwrap();
        Self { directory }
    }

    /// Puts words into the pool, from the word with this number on.
    pub fn write_words(&self, first: u64, words: impl IntoIterator<Item = u64>) {
        let pool = self.directory.path().join("pool");
        let pool = fs::File::options().write(true).open(pool);
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        pool.unwrap().write_all_at(&bytes, 8 * first).unwrap();
    }

    /// Puts another file beside the pool.
    pub fn add_file(&self, name: &str, bytes: &[u8]) {
        fs::write(self.directory.path().join(name), bytes).unwrap();
    }

    /// What a file beside the pool holds.
    pub fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.directory.path().join(name)).unwrap()
    }

    fn options(&self, cpu_limit: Duration, open: &[OpenRange]) -> ExploreOptions {
        let pool: PathBuf = self.directory.path().join("pool");
        ExploreOptions {
            command: vec![
                self.directory.path().join("recovery").into(),
                pool.clone().into(),
            ],
            files: vec![OpenFile {
                path: pool,
                open: open.iter().map(|&(start, end)| start..end).collect(),
            }],
            cpu_limit,
            repetition: Repetition::default(),
        }
    }

    pub fn start(&self, open: &[OpenRange]) -> (ExploredTarget, ExplorationStep) {
        let limit = Duration::from_secs(60);
        ExploredTarget::start(&self.options(limit, open)).unwrap()
    }

    /// All branches, depth first, with the answers that `choices` gives to each question.
    pub fn explore(
        &self,
        open: &[OpenRange],
        choices: impl FnMut(&Question) -> Vec<Vec<u8>>,
    ) -> Vec<BranchEnd> {
        self.explore_within(Duration::from_secs(60), open, choices)
    }

    pub fn explore_within(
        &self,
        cpu_limit: Duration,
        open: &[OpenRange],
        mut choices: impl FnMut(&Question) -> Vec<Vec<u8>>,
    ) -> Vec<BranchEnd> {
        let (mut target, step) = ExploredTarget::start(&self.options(cpu_limit, open)).unwrap();
        let mut ends = Vec::new();
        follow(&mut target, step, &mut choices, &mut ends);
        assert_eq!(target.waiting(), 0);
        let pool = fs::read(self.directory.path().join("pool")).unwrap();
        assert!(pool == vec![0; POOL_BYTES], "the pool has changed");
        ends
    }
}

fn follow(
    target: &mut ExploredTarget,
    step: ExplorationStep,
    choices: &mut dyn FnMut(&Question) -> Vec<Vec<u8>>,
    ends: &mut Vec<BranchEnd>,
) {
    match step {
        ExplorationStep::End(end) => ends.push(end),
        ExplorationStep::RunAnew(effect) => panic!("{effect}"),
        ExplorationStep::Question(question) => {
            let answers = choices(&question);
            for (index, answer) in answers.iter().enumerate() {
                let keep = index + 1 < answers.len();
                let step = target.answer(question.branch, answer, keep).unwrap();
                follow(target, step, choices, ends);
            }
        }
    }
}

/// The bytes of 64-bit words, each an answer.
pub fn words(values: &[u64]) -> Vec<Vec<u8>> {
    values
        .iter()
        .map(|value| value.to_le_bytes().to_vec())
        .collect()
}

pub fn exited(status: i32) -> ProcessEnd {
    ProcessEnd::Exited { status }
}
