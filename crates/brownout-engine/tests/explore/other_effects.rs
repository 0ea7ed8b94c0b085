//! What copies of a process do besides reading explored files: memory that they write, and other files that they open.

use brownout_engine::explore::{ExplorationStep, SharedEffect};

use crate::fixture::{Recovery, exited, words};

#[test]
fn copies_that_write_much_memory_have_their_own() {
    // Memory of the heap, that of a mapping, and that of one which is made in between; all of it is written before and after each choice.
    let recovery = Recovery::new(
        "enum { BLOCKS = 96, WORDS = 8192, LARGE = 600000 };
         uint64_t *blocks[BLOCKS], *large = calloc(LARGE, 8), a, b, wrong = 0;
         for (int i = 0; i < BLOCKS; i++) {
           blocks[i] = malloc(8 * WORDS);
           for (int j = 0; j < WORDS; j++) blocks[i][j] = i * j;
         }
         for (int i = 0; i < LARGE; i++) large[i] = i;
         a = pool[0];
         uint64_t *later = mmap(0, 8 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
         for (int i = 0; i < LARGE; i++) { wrong |= later[i]; later[i] = a + i; }
         for (int i = 0; i < BLOCKS; i++) for (int j = 0; j < WORDS; j++) blocks[i][j] += a;
         for (int i = 0; i < LARGE; i++) large[i] += a;
         b = pool[8];
         for (int i = 0; i < BLOCKS; i++) for (int j = 0; j < WORDS; j++) wrong |= (blocks[i][j] += b) != i * j + a + b;
         for (int i = 0; i < LARGE; i++) wrong |= (large[i] += b) != i + a + b || (later[i] += b) != i + a + b;
         munmap(later, 8 * LARGE);
         return wrong ? 99 : 10 * a + b;",
    );
    let values = [0, 1, 2, 3, 4, 5];
    let ends = recovery.explore(&[(0, 8), (64, 72)], |_| words(&values));
    let seen: Vec<_> = ends.iter().map(|end| end.end).collect();
    let pairs = values.iter().flat_map(|a| values.map(|b| 10 * a + b));
    let expected: Vec<_> = pairs.map(|status| exited(status as i32)).collect();
    assert_eq!(seen, expected);
}

#[test]
fn files_may_be_opened_for_writing_and_what_goes_nowhere_may_be_written() {
    let recovery = Recovery::new(
        "int null = open(\"/dev/null\", O_WRONLY | O_CREAT | O_TRUNC, 0600);
         char path[4096]; sprintf(path, \"%s.other\", argv[1]); int other = open(path, O_RDWR);
         struct iovec parts[2] = {{\"a\", 1}, {\"bc\", 2}};
         int done = write(null, \"text\", 4) + write(null, (char *)pool, 8) + writev(null, parts, 2);
         return other < 0 || done != 15 ? 99 : pool[0];",
    );
    recovery.add_file("pool.other", b"not changed");
    let ends = recovery.explore(&[(0, 8)], |_| words(&[1, 2]));
    let seen: Vec<_> = ends.iter().map(|end| end.end).collect();
    assert_eq!(seen, [exited(1), exited(2)]);
}

#[test]
fn a_file_that_is_changed_has_to_be_run_anew() {
    let open = "char path[4096]; sprintf(path, \"%s.other\", argv[1]);";
    for (effect, call) in [
        ("open(path, O_WRONLY | O_TRUNC);", libc::SYS_openat),
        ("write(open(path, O_RDWR), \"x\", 1);", libc::SYS_write),
        ("ftruncate(open(path, O_RDWR), 3);", libc::SYS_ftruncate),
        ("open(\"/dev/full\", O_WRONLY);", libc::SYS_openat),
    ] {
        let recovery = Recovery::new(&format!("{open} {effect}"));
        recovery.add_file("pool.other", b"not changed");
        let (_, step) = recovery.start(&[(0, 8)]);
        let expected = call as u32;
        assert!(
            matches!(step, ExplorationStep::RunAnew(SharedEffect::Call(call)) if call == expected),
            "{effect}: {step:?}"
        );
        assert_eq!(recovery.file("pool.other"), b"not changed", "{effect}");
    }
}

/// A process that is kept does not keep its lock from copies that open the file themselves.
#[test]
fn each_copy_has_its_own_locks() {
    let recovery = Recovery::new(
        "char path[4096]; sprintf(path, \"%s.other\", argv[1]);
         int before = open(path, O_RDWR), held = open(argv[1], O_RDWR);
         if (flock(held, LOCK_EX | LOCK_NB)) return 98;
         uint64_t a = pool[0];
         int file = open(path, O_RDWR);
         if (flock(file, LOCK_EX | LOCK_NB)) return 97;
         if (!flock(before, LOCK_SH | LOCK_NB)) return 96;
         if (!flock(open(argv[1], O_RDWR), LOCK_EX | LOCK_NB)) return 95;
         uint64_t b = pool[8];
         if (b && flock(file, LOCK_UN)) return 94;
         if (!flock(before, LOCK_SH | LOCK_NB) != b) return 93;
         return 10 * a + b;",
    );
    recovery.add_file("pool.other", b"not changed");
    let (mut target, step) = recovery.start(&[(0, 8), (64, 72)]);
    let branch = |step: &ExplorationStep| match step {
        ExplorationStep::Question(question) => question.branch,
        other => panic!("{other:?}"),
    };
    let first = branch(&step);
    let mut answer = |branch, word, keep| target.answer(branch, &words(&[word])[0], keep).unwrap();
    // Both wait with the lock.
    let second = [(0, true), (1, false)].map(|(a, keep)| branch(&answer(first, a, keep)));
    let ends =
        second.map(|branch| [(0, true), (1, false)].map(|(b, keep)| answer(branch, b, keep)));
    for (step, status) in ends.iter().flatten().zip([0, 1, 10, 11]) {
        assert!(
            matches!(step, ExplorationStep::End(end) if end.end == exited(status)),
            "{status}: {step:?}"
        );
    }
}

#[test]
fn copies_have_the_parent_of_the_first_process() {
    let recovery = Recovery::new(
        "int before = getppid(); uint64_t a = pool[0]; return before == getppid() ? a : 99;",
    );
    let ends = recovery.explore(&[(0, 8)], |_| words(&[1, 2]));
    let seen: Vec<_> = ends.iter().map(|end| end.end).collect();
    assert_eq!(seen, [exited(1), exited(2)]);
}
