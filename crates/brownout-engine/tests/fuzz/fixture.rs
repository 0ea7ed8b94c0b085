//! Targets: a few statements in C that find a persistent file mapped at `pool`, and read their input as they like.

use brownout_engine::fuzz::{CopyEnd, FuzzServer, FuzzTarget, InputChannel, Transition};
use brownout_engine::{Repetition, ThreadSchedule};
use brownout_trace::replay::Content;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const HEAD: &str = "
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <immintrin.h>
static volatile uint64_t *pool;
static int fd;
static void open_pool(const char *path) {
  fd = open(path, O_RDWR | O_CREAT, 0666);
  if (ftruncate(fd, 65536)) _exit(97);
  pool = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd < 0 || pool == MAP_FAILED) _exit(98);
}
static void persist(const volatile void *at) { _mm_clflush((const void *)at); _mm_sfence(); }
";

pub struct Target {
    _directory: tempfile::TempDir,
    pub options: FuzzTarget,
}

impl Target {
    /// Compiles a target from definitions and the statements of `main`, which gets the path of the pool in `argv[1]`.
    pub fn new(definitions: &str, statements: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("target.c");
        let text = format!(
            "{HEAD}{definitions}\nint main(int argc, char **argv) {{\n{statements}\nreturn 0;\n}}\n"
        );
        fs::write(&source, text).unwrap();
        let program = directory.path().join("target");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-w", "-pthread", "-o"]);
        compiler.args([&program, &source]);
        assert!(compiler.status().unwrap().success(), "{statements}");
        let pool = fs::canonicalize(directory.path()).unwrap().join("pool");
        let options = FuzzTarget {
            command: vec![program.into(), pool.clone().into()],
            environment: Vec::new(),
            directory: None,
            input: InputChannel::Stdin,
            files: vec![pool],
            fork_at: None,
            timeout: Duration::from_secs(20),
            schedule: ThreadSchedule::of_seed(1),
            repetition: Repetition::default(),
            comparisons: false,
        };
        Self {
            _directory: directory,
            options,
        }
    }

    pub fn pool(&self) -> PathBuf {
        self.options.files[0].clone()
    }

    /// The path of another file beside the pool.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.pool().with_file_name(name)
    }

    pub fn start(&self) -> FuzzServer {
        FuzzServer::start(&self.options).unwrap()
    }
}

/// What an execution has shown, so that it can be compared with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub end: CopyEnd,
    pub edges: Vec<u8>,
    pub transitions: Vec<(Transition, u32)>,
}

/// A file that holds 64-bit words, and zeros behind them.
pub fn content(words: &[u64], len: u64) -> Content {
    let mut content = Content::default();
    content.resize(len);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    content.write(0, &bytes);
    content
}

/// The 64-bit word with this number.
pub fn word(content: &Content, number: u64) -> u64 {
    let mut bytes = [0; 8];
    content.read(8 * number, &mut bytes);
    u64::from_le_bytes(bytes)
}

impl Seen {
    /// The transitions of both, but for their counts.
    pub fn new_transitions(&self, other: &Seen) -> usize {
        let known = |one: &Transition| other.transitions.iter().any(|(known, _)| known == one);
        let all = self.transitions.iter();
        all.filter(|(one, _)| !known(one)).count()
    }
}

pub fn run(server: &mut FuzzServer, input: &[u8]) -> Seen {
    let execution = server.execute(input).unwrap();
    let mut transitions = execution.transitions();
    transitions.sort();
    Seen {
        end: execution.end,
        edges: execution.edges().to_vec(),
        transitions,
    }
}
