//! Programs with threads: a function `run` in C or C++, or in Rust, which notes numbers in the pool with `put`.

use brownout_engine::{OnFull, RecordOptions, ScheduledRun, ThreadSchedule, Unpinned, record};
use brownout_trace::{EventKind, ProcessEnd, TraceReader, first_difference};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const HEAD: &str = "
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifndef __cplusplus
#include <stdatomic.h>
#endif
static volatile uint64_t *pool;
static uint64_t next;
static void put(uint64_t value) {
  uint64_t at = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
  pool[at] = value;
  _mm_clflush((void *)&pool[at]);
  _mm_sfence();
}
static inline void in_threads(long count, void *(*work)(void *)) {
  pthread_t threads[16];
  for (long i = 0; i < count; i++) if (pthread_create(&threads[i], 0, work, (void *)i)) abort();
  for (long i = 0; i < count; i++) if (pthread_join(threads[i], 0)) abort();
}
";

const TAIL: &str = "
int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR);
  pool = (volatile uint64_t *)mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd < 0 || pool == MAP_FAILED) return 99;
  run();
  return 0;
}
";

const RUST: &str = r#"
use std::arch::x86_64::{_mm_clflush, _mm_sfence};
use std::sync::atomic::{AtomicUsize, Ordering};
struct Pool(*mut u64, AtomicUsize);
unsafe impl Sync for Pool {}
impl Pool {
    fn put(&self, value: u64) {
        let at = self.1.fetch_add(1, Ordering::Relaxed);
        unsafe { let to = self.0.add(at); to.write_volatile(value); _mm_clflush(to.cast()); _mm_sfence(); }
    }
}
unsafe extern "C" { fn mmap(a: *mut u8, l: usize, p: i32, f: i32, d: i32, o: i64) -> *mut u64; }
fn main() {
    use std::os::fd::AsRawFd;
    let path = std::env::args().nth(1).unwrap();
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let pool = unsafe { mmap(std::ptr::null_mut(), 65536, 3, 1, file.as_raw_fd(), 0) };
    run(Box::leak(Box::new(Pool(pool, AtomicUsize::new(0)))));
}
"#;

pub struct ThreadedProgram {
    directory: tempfile::TempDir,
}

/// A recording of a program.
pub struct ScheduledRecording {
    trace: PathBuf,
    pub scheduled: ScheduledRun,
}

impl ThreadedProgram {
    pub fn new(source: &str) -> Self {
        Self::compiled("cc", "program.c", &format!("{HEAD}{source}{TAIL}"))
    }

    pub fn of_cxx(source: &str) -> Self {
        Self::compiled("c++", "program.cpp", &format!("{HEAD}{source}{TAIL}"))
    }

    /// `None` if there is no compiler for programs of their own.
    pub fn of_rust(source: &str) -> Option<Self> {
        Command::new("rustc").arg("-V").output().ok()?;
        Some(Self::compiled(
            "rustc",
            "program.rs",
            &format!("{RUST}{source}"),
        ))
    }

    fn compiled(compiler: &str, name: &str, text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join(name);
        fs::write(&source, text).unwrap();
        let mut command = Command::new(compiler);
        match compiler {
            "rustc" => command.args(["--edition", "2024", "-O"]),
            _ => command.args(["-O1", "-w", "-pthread"]),
        };
        command.arg("-o");
        command.args([directory.path().join("program"), source]);
        assert!(command.status().unwrap().success(), "{text}");
        Self { directory }
    }

    /// Records the program with a pool of zeros under the schedule of a seed.
    pub fn record(&self, seed: u64) -> ScheduledRecording {
        let pool = self.directory.path().join("pool");
        fs::write(&pool, vec![0; 65536]).unwrap();
        let trace = tempfile::NamedTempFile::new_in(self.directory.path());
        let trace = trace.unwrap().into_temp_path().keep().unwrap();
        let options = RecordOptions {
            command: vec![self.directory.path().join("program").into(), pool.into()],
            trace: trace.clone(),
            pm: Vec::new(),
            loads: true,
            shared_loads: false,
            coverage: false,
            watch: Vec::new(),
            on_full: OnFull::Stop,
            schedule: Some(ThreadSchedule { seed, length: 100 }),
            patch: None,
            symbolic: Vec::new(),
        };
        let recording = record(&options, &mut |_| ()).unwrap();
        assert_eq!(
            recording.end,
            ProcessEnd::Exited { status: 0 },
            "seed {seed}"
        );
        ScheduledRecording {
            trace,
            scheduled: recording.scheduled.unwrap(),
        }
    }
}

impl ScheduledRecording {
    /// Whether the system allows addresses to be the same in each run.
    pub fn has_fixed_addresses(&self) -> bool {
        !self.scheduled.unpinned.contains(&Unpinned::Addresses)
    }

    /// What the program uses that the schedule does not determine, except for addresses, which depend on the system.
    pub fn unpinned(&self) -> Vec<Unpinned> {
        let mut unpinned = self.scheduled.unpinned.clone();
        unpinned.retain(|it| *it != Unpinned::Addresses);
        unpinned
    }

    /// The first events that differ from those of another recording; what they put, if all other events may differ.
    pub fn differs_from(&self, other: &Self) -> Option<[String; 2]> {
        if !self.has_fixed_addresses() {
            let values = [self.values(), other.values()].map(|values| format!("{values:?}"));
            return (values[0] != values[1]).then_some(values);
        }
        let open = |path: &Path| TraceReader::open(path).unwrap();
        let found = first_difference(&mut open(&self.trace), &mut open(&other.trace)).unwrap()?;
        let event = |path: &Path| {
            let mut reader = open(path);
            reader.seek(found.index()).unwrap();
            format!("{:?}", reader.next().unwrap())
        };
        Some([event(&self.trace), event(&other.trace)])
    }

    /// The numbers that the program has put, in their order.
    pub fn values(&self) -> Vec<u64> {
        let mut values = Vec::new();
        let mut reader = TraceReader::open(&self.trace).unwrap();
        while let Some(event) = reader.next().unwrap() {
            if let EventKind::Store { bytes, .. } = event.kind {
                values.push(u64::from_le_bytes(bytes.try_into().unwrap()));
            }
        }
        values
    }
}
