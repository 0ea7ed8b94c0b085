//! Executions of the same input are the same: time, random numbers, ids and addresses do not differ.

use crate::fixture::{Target, run};

/// Leaves in the pool what differs from run to run.
const INPUTS: &str = "
  open_pool(argv[1]);
  char byte; read(0, &byte, 1);
  pool[0] = time(0); struct timespec now; clock_gettime(CLOCK_MONOTONIC, &now); pool[1] = now.tv_nsec;
  uint64_t random; getrandom(&random, 8, 0); pool[2] = random;
  FILE *device = fopen(\"/dev/urandom\", \"r\"); fread((void *)&random, 8, 1, device); pool[3] = random;
  pool[4] = getpid(); pool[5] = gettid(); pool[6] = (uint64_t)&byte; pool[7] = (uint64_t)malloc(100);
  pool[8] = __builtin_ia32_rdtsc(); pool[9] = (uint64_t)pool; pool[10] = (uint64_t)&main;
";

#[test]
fn what_the_system_tells_a_target_is_the_same_in_each_execution() {
    let target = Target::new("", INPUTS);
    let words = |server: &mut brownout_engine::fuzz::FuzzServer| -> Vec<u64> {
        let files = server.execute(b"x").unwrap().files().unwrap();
        let pool = files[0].as_ref().unwrap();
        (0..11)
            .map(|number| crate::fixture::word(pool, number))
            .collect()
    };
    let mut server = target.start();
    let first = words(&mut server);
    assert!(first.iter().all(|&word| word != 0), "{first:x?}");
    assert_eq!(words(&mut server), first);
    // The id of the process is that of the one that waits, which another server has another one of.
    drop(server);
    let mut second = words(&mut target.start());
    second[4..6].copy_from_slice(&first[4..6]);
    assert_eq!(second, first);
}

#[test]
fn counts_of_two_servers_can_be_compared() {
    let target = Target::new("", INPUTS);
    let seen = |input: &[u8]| run(&mut target.start(), input);
    assert_eq!(seen(b"x"), seen(b"x"));
}

#[test]
fn threads_run_in_the_order_of_the_schedule() {
    let target = Target::new(
        "static void *count(void *at) { for (int i = 0; i < 50; i++) __sync_fetch_and_add((uint64_t *)pool, 1); return 0; }",
        "open_pool(argv[1]); char byte; read(0, &byte, 1);
         pthread_t threads[3];
         for (int i = 0; i < 3; i++) pthread_create(threads + i, 0, count, 0);
         for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
         return pool[0];",
    );
    let mut server = target.start();
    let first = run(&mut server, b"x");
    assert_eq!(first.end, brownout_engine::fuzz::CopyEnd::Exited(150));
    for _ in 0..3 {
        assert_eq!(run(&mut server, b"x"), first);
    }
}
