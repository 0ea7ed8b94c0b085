//! What a schedule determines besides the order of threads, and what it names because it does not.

use crate::fixture::ThreadedProgram;
use brownout_engine::Unpinned;

#[test]
fn time_and_random_numbers_are_those_of_the_seed() {
    let source = "
    static void run(void) {
      struct timespec now; struct timeval day; uint64_t random; unsigned char bytes[16]; char name[40];
      clock_gettime(CLOCK_MONOTONIC, &now); put(now.tv_sec); put(now.tv_nsec);
      gettimeofday(&day, 0); put(day.tv_sec); put(day.tv_usec);
      put(time(0));
      put(__builtin_ia32_rdtsc());
      if (getrandom(&random, 8, 0) != 8) abort(); put(random);
      int fd = open(\"/dev/urandom\", O_RDONLY);
      if (read(fd, &random, 8) != 8) abort(); put(random); close(fd);
      fd = open(\"/proc/sys/kernel/random/uuid\", O_RDONLY);
      if (read(fd, name, 40) != 37) abort(); memcpy(&random, name, 8); put(random); close(fd);
      memcpy(&random, (void *)getauxval(AT_RANDOM), 8); put(random);
      struct stat status; fd = memfd_create(\"file\", 0);
      if (ftruncate(fd, 10) || fstat(fd, &status)) abort(); put(status.st_mtime); put(status.st_ctim.tv_nsec);
      put((uint64_t)&source_of_addresses); put((uint64_t)malloc(10)); put((uint64_t)&now);
    }";
    let program = ThreadedProgram::new(&format!("static int source_of_addresses;{source}"));
    let first = program.record(4);
    let again = program.record(4).values();
    let alike = again.len() - if first.has_fixed_addresses() { 0 } else { 3 };
    assert_eq!(first.values()[..alike], again[..alike]);
    let (other, first) = (program.record(5).values(), first.values());
    assert_ne!(first[6..8], other[6..8], "random numbers");
    assert_eq!(
        first[..6],
        other[..6],
        "the time does not depend on the seed"
    );
}

#[test]
fn sleeping_takes_no_time_that_anybody_notices() {
    let source = "static void run(void) { put(1); sleep(1000000); put(2); }";
    let started = std::time::Instant::now();
    let program = ThreadedProgram::new(source);
    assert_eq!(program.record(1).values(), [1, 2]);
    assert!(started.elapsed().as_secs() < 1000);
}

#[test]
fn what_is_not_determined_is_named() {
    let cases: [(&str, &[Unpinned]); 6] = [
        ("put(1);", &[]),
        ("put(getpid() != 0);", &[Unpinned::Ids]),
        (
            "put(1); if (!fork()) _exit(0); wait(0);",
            &[Unpinned::Processes],
        ),
        (
            "struct itimerval far = {{0, 0}, {1000, 0}}; put(1); setitimer(ITIMER_REAL, &far, 0);",
            &[Unpinned::Timers],
        ),
        (
            "struct rusage used; getrusage(RUSAGE_SELF, &used); put(1);",
            &[Unpinned::Usage],
        ),
        (
            "put(1); signal(SIGCHLD, SIG_IGN); kill(getppid(), 0);",
            &[Unpinned::Signals, Unpinned::Ids],
        ),
    ];
    for (statements, expected) in cases {
        let program = ThreadedProgram::new(&format!("static void run(void) {{ {statements} }}"));
        assert_eq!(program.record(1).unpinned(), expected, "{statements}");
    }
}

#[test]
fn signals_are_delivered_to_threads_that_wait() {
    let source = "
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
    static atomic_int caught;
    static void handle(int signal) { caught++; }
    static void *work(void *number) {
      struct timespec day = {86400, 0};
      while (!caught) nanosleep(&day, 0);
      put(caught);
      return 0;
    }
    static void run(void) {
      struct sigaction action = {.sa_handler = handle};
      sigaction(SIGUSR1, &action, 0);
      pthread_t thread;
      pthread_create(&thread, 0, work, 0);
      put(50);
      pthread_kill(thread, SIGUSR1);
      pthread_join(thread, 0);
    }";
    let program = ThreadedProgram::new(source);
    for seed in 0..4 {
        let recorded = program.record(seed);
        assert_eq!(recorded.values(), [50, 1], "seed {seed}");
        assert!(recorded.unpinned().contains(&Unpinned::Signals));
    }
}

#[test]
fn a_robust_mutex_of_a_thread_that_ended_can_be_taken_over() {
    let source = "
    static pthread_mutex_t mutex;
    static void *work(void *number) { pthread_mutex_lock(&mutex); put(1); return 0; }
    static void *wait_for_it(void *number) {
      int result = pthread_mutex_lock(&mutex);
      if (result == EOWNERDEAD) { pthread_mutex_consistent(&mutex); put(2); }
      pthread_mutex_unlock(&mutex);
      return 0;
    }
    static void run(void) {
      pthread_mutexattr_t robust; pthread_t first, second;
      pthread_mutexattr_init(&robust);
      pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
      pthread_mutex_init(&mutex, &robust);
      pthread_create(&first, 0, work, 0);
      pthread_create(&second, 0, wait_for_it, 0);
      pthread_join(first, 0);
      pthread_join(second, 0);
      if (pthread_mutex_lock(&mutex) == EOWNERDEAD) put(2);
    }";
    let program = ThreadedProgram::new(source);
    for seed in 0..4 {
        let values = program.record(seed).values();
        assert_eq!(values, [1, 2], "seed {seed}");
    }
}
