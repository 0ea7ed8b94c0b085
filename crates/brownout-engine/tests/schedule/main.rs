//! Threads that run in the order of a schedule: the same seed gives the same events, other seeds give other orders.

mod fixture;
mod pinned;

use fixture::ThreadedProgram;

/// Each of four threads notes in the pool that it has been there, several times.
const MUTEX: &str = "
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *work(void *number) {
  for (int i = 0; i < 20; i++) {
    pthread_mutex_lock(&mutex);
    put((uint64_t)number);
    pthread_mutex_unlock(&mutex);
  }
  return 0;
}
static void run(void) { in_threads(4, work); }";

const CONDITION: &str = "
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int queued, taken;
static void *consume(void *number) {
  pthread_mutex_lock(&mutex);
  while (taken < 30) {
    while (!queued && taken < 30) pthread_cond_wait(&changed, &mutex);
    if (queued) { queued--; taken++; put((uint64_t)number); }
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&mutex);
  return 0;
}
static void *produce(void *number) {
  for (int i = 0; i < 10; i++) {
    pthread_mutex_lock(&mutex);
    queued++;
    put((uint64_t)number);
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
  }
  return 0;
}
static void *work(void *number) { return (uint64_t)number < 3 ? produce(number) : consume(number); }
static void run(void) { in_threads(5, work); }";

const SPIN: &str = "
static pthread_spinlock_t lock;
static atomic_int turn;
static void *work(void *number) {
  for (int i = 0; i < 10; i++) {
    pthread_spin_lock(&lock);
    put((uint64_t)number);
    pthread_spin_unlock(&lock);
  }
  /* Without a locked instruction and without a hint that this waits. */
  while (atomic_load_explicit(&turn, memory_order_acquire) != (int)(uint64_t)number) ;
  put(100 + (uint64_t)number);
  atomic_store_explicit(&turn, (int)(uint64_t)number + 1, memory_order_release);
  return 0;
}
static void run(void) { pthread_spin_init(&lock, 0); in_threads(3, work); }";

const TIMES: &str = "
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static void *work(void *number) {
  struct timespec until;
  usleep(1000 * (7 - (uint64_t)number));
  put((uint64_t)number);
  clock_gettime(CLOCK_REALTIME, &until);
  put(until.tv_sec); put(until.tv_nsec);
  until.tv_sec += 3600 * (1 + (uint64_t)number);
  pthread_mutex_lock(&mutex);
  if (pthread_cond_timedwait(&never, &mutex, &until) != ETIMEDOUT) abort();
  put((uint64_t)number);
  pthread_mutex_unlock(&mutex);
  return 0;
}
static void run(void) { in_threads(3, work); sleep(86400); put(time(0)); }";

const BARRIER: &str = "
static pthread_barrier_t barrier;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static sem_t slots;
static void *work(void *number) {
  for (int i = 0; i < 5; i++) {
    put((uint64_t)number);
    pthread_barrier_wait(&barrier);
    pthread_rwlock_rdlock(&shared);
    pthread_rwlock_unlock(&shared);
    pthread_rwlock_wrlock(&shared);
    put(10 + (uint64_t)number);
    pthread_rwlock_unlock(&shared);
    sem_wait(&slots); put(20 + (uint64_t)number); sched_yield(); sem_post(&slots);
  }
  return 0;
}
static void run(void) { sem_init(&slots, 0, 2); pthread_barrier_init(&barrier, 0, 4); in_threads(4, work); }";

/// Threads that hand data to each other through the kernel.
const PIPES: &str = "
static int ends[2], events;
static void *work(void *number) {
  char byte; uint64_t one = 1;
  if ((uint64_t)number == 0) {
    for (int i = 0; i < 20; i++) { byte = i; put(50 + i); if (write(ends[1], &byte, 1) != 1) abort(); }
    if (write(events, &one, 8) != 8) abort();
  } else if ((uint64_t)number == 3) {
    struct pollfd wait = {events, POLLIN, 0};
    if (poll(&wait, 1, -1) != 1) abort();
    put(99);
  } else for (int i = 0; i < 10; i++) {
    if (read(ends[0], &byte, 1) != 1) abort();
    put(100 * (uint64_t)number + byte);
  }
  return 0;
}
static void run(void) { if (pipe(ends)) abort(); events = eventfd(0, 0); in_threads(4, work); }";

/// Detached and nested threads, thread-specific data, and memory that is allocated at the same time.
const LIFE: &str = "
static atomic_int left = 3;
static void *inner(void *number) { put((uint64_t)number); free(malloc(100000)); return number; }
static void *work(void *number) {
  pthread_t thread; void *result;
  for (int i = 0; i < 3; i++) {
    if (pthread_create(&thread, 0, inner, number)) abort();
    put((uintptr_t)malloc(100) & 0xfff);
    if (i < 2) { pthread_join(thread, &result); if (result != number) abort(); }
    else pthread_detach(thread);
  }
  left--;
  return 0;
}
static void run(void) { in_threads(3, work); while (left) usleep(10); }";

#[test]
fn the_same_seed_gives_the_same_events() {
    for source in [MUTEX, CONDITION, SPIN, TIMES, BARRIER, PIPES, LIFE] {
        let program = ThreadedProgram::new(source);
        for seed in [1, 2, 3] {
            let (one, other) = (program.record(seed), program.record(seed));
            assert_eq!(one.differs_from(&other), None, "seed {seed}: {source}");
            assert_eq!(one.unpinned(), [], "seed {seed}: {source}");
        }
    }
}

#[test]
fn other_seeds_give_other_orders() {
    for source in [MUTEX, CONDITION, SPIN, BARRIER, LIFE] {
        let program = ThreadedProgram::new(source);
        let first = program.record(1);
        let differs = |seed| program.record(seed).differs_from(&first).is_some();
        assert!((2..6).any(differs), "{source}");
    }
}

#[test]
fn threads_of_cxx_run_in_the_order_of_a_seed() {
    let source = "
    #include <condition_variable>
    #include <mutex>
    #include <thread>
    #include <vector>
    static std::mutex mutex; static std::condition_variable changed; static int turn;
    static void run() {
      std::vector<std::thread> threads;
      for (int number = 0; number < 4; number++)
        threads.emplace_back([number] {
          for (int i = 0; i < 5; i++) { std::lock_guard<std::mutex> guard(mutex); put(number); }
          std::unique_lock<std::mutex> guard(mutex);
          changed.wait(guard, [number] { return turn == number; });
          put(100 + number); turn++; changed.notify_all();
        });
      for (auto &thread : threads) thread.join();
    }";
    let program = ThreadedProgram::of_cxx(source);
    for seed in [1, 2] {
        let (one, other) = (program.record(seed), program.record(seed));
        assert_eq!(one.differs_from(&other), None, "seed {seed}");
    }
}

#[test]
fn threads_of_rust_run_in_the_order_of_a_seed() {
    let source = r#"
    use std::sync::{Arc, Barrier, Condvar, Mutex, mpsc};
    fn run(pool: &'static Pool) {
        let pair = Arc::new((Mutex::new(0u64), Condvar::new()));
        let barrier = Arc::new(Barrier::new(3));
        let (sender, receiver) = mpsc::channel();
        let threads: Vec<_> = (0..3u64).map(|number| {
            let (pair, barrier, sender) = (pair.clone(), barrier.clone(), sender.clone());
            std::thread::spawn(move || {
                for _ in 0..5 { let _guard = pair.0.lock().unwrap(); pool.put(number); }
                barrier.wait();
                let mut turn = pair.0.lock().unwrap();
                while *turn != number { turn = pair.1.wait(turn).unwrap(); }
                *turn += 1; pool.put(100 + number); pair.1.notify_all();
                drop(turn);
                std::thread::sleep(std::time::Duration::from_millis(10 * number));
                sender.send(number).unwrap();
            })
        }).collect();
        for _ in 0..3 { let number = receiver.recv().unwrap(); let _g = pair.0.lock().unwrap(); pool.put(200 + number); }
        for thread in threads { thread.join().unwrap(); }
    }"#;
    let Some(program) = ThreadedProgram::of_rust(source) else {
        return;
    };
    for seed in [1, 2] {
        let (one, other) = (program.record(seed), program.record(seed));
        assert_eq!(one.differs_from(&other), None, "seed {seed}");
    }
}

#[test]
fn a_program_with_one_thread_runs_as_ever() {
    let program =
        ThreadedProgram::new("static void run(void) { for (int i = 0; i < 5; i++) put(i); }");
    let recorded = program.record(9);
    assert_eq!(recorded.values(), [0, 1, 2, 3, 4]);
    assert_eq!(recorded.scheduled.steps, 0);
}
