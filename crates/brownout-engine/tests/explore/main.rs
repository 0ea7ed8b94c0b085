//! Small recoveries in C, explored to the end: every branch with its output and its status.

mod fixture;
mod free_answers;
mod other_effects;
mod other_reads;
mod repetition;

use brownout_engine::explore::{ExplorationStep, SharedEffect};
use brownout_trace::ProcessEnd;
use fixture::{Recovery, exited, words};
use std::time::Duration;

const READ_WORD: &str = "uint64_t a = pool[0]; printf(\"%lu\\n\", a); return a % 5;";

#[test]
fn each_answer_to_a_load_is_a_branch_with_its_own_output_and_status() {
    let recovery = Recovery::new(READ_WORD);
    let ends = recovery.explore(&[(0, 8)], |_| words(&[3, 7, 40]));
    let seen: Vec<_> = ends.iter().map(|end| (end.output_of(1), end.end)).collect();
    let expected = [("3\n", 3), ("7\n", 2), ("40\n", 0)];
    assert_eq!(
        seen,
        expected.map(|(text, status)| (text.as_bytes().to_vec(), exited(status)))
    );
    assert!(ends.iter().all(|end| end.reads.len() == 1 && !end.hung));
}

#[test]
fn a_branch_reads_only_what_its_earlier_answers_lead_to() {
    let recovery = Recovery::new(
        "puts(\"start\"); fflush(stdout);
         if (pool[0] == 1) printf(\"%lu\\n\", pool[8]); else if (pool[16]) puts(\"other\");
         printf(\"%lu\\n\", pool[0]);",
    );
    let ends = recovery.explore(&[(0, 8), (64, 72), (128, 136)], |_| words(&[0, 1]));
    let seen: Vec<_> = ends.iter().map(|end| end.output_of(1)).collect();
    let expected = [
        "start\n0\n",
        "start\nother\n0\n",
        "start\n0\n1\n",
        "start\n1\n1\n",
    ];
    assert_eq!(seen, expected.map(|text| text.as_bytes().to_vec()));
    let offsets = |end: usize| -> Vec<u64> {
        let reads = ends[end].reads.iter();
        reads.map(|(question, _)| question.offset).collect()
    };
    assert_eq!(offsets(0), [0, 128]);
    assert_eq!(offsets(3), [0, 64]);
}

#[test]
fn bytes_that_are_not_open_and_bytes_that_recovery_stores_are_not_asked_for() {
    let recovery = Recovery::new(
        "pool[1] = 5; uint32_t low = *(volatile uint32_t *)pool; pool[600] = 1;
         return pool[1] + pool[2] + pool[600] + low;",
    );
    let ends = recovery.explore(&[(0, 24)], |question| {
        assert_eq!(
            question.open.iter().filter(|&&open| open).count(),
            question.len
        );
        match question.offset {
            0 => vec![vec![9, 0, 0, 0]],
            16 => words(&[2]),
            other => panic!("asked for {other}"),
        }
    });
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0].end, exited(5 + 2 + 1 + 9));
    assert_eq!(ends[0].reads.len(), 2);
}

#[test]
fn a_load_of_own_and_open_bytes_keeps_the_own_ones() {
    let recovery = Recovery::new(
        "*(volatile uint8_t *)pool = 7; uint64_t a = *(volatile uint64_t *)pool; printf(\"%lx\\n\", a);",
    );
    let ends = recovery.explore(&[(0, 8)], |question| {
        assert_eq!(
            question.open,
            [false, true, true, true, true, true, true, true]
        );
        words(&[0x1111_1111_1111_1111, 0])
    });
    let seen: Vec<_> = ends.iter().map(|end| end.output_of(1)).collect();
    assert_eq!(seen, [b"1111111111111107\n".to_vec(), b"7\n".to_vec()]);
}

#[test]
fn every_form_of_a_load_asks() {
    let forms = [
        "char to[16]; void *from = pool; void *at = to; uint64_t n = 16;
         asm volatile(\"rep movsb\" : \"+S\"(from), \"+D\"(at), \"+c\"(n) :: \"memory\"); uint64_t a = *(uint64_t *)to;",
        "uint64_t a; asm volatile(\"movdqu %1, %%xmm0; movq %%xmm0, %0\" : \"=r\"(a) : \"m\"(*(char (*)[16])pool) : \"xmm0\");",
        "uint64_t a = __sync_val_compare_and_swap(pool, 1, 99);",
        "uint64_t a = __sync_fetch_and_add(pool, 1);",
        "uint64_t a; asm volatile(\"push %1; pop %0\" : \"=r\"(a) : \"m\"(*pool));",
        "uint64_t a; memcpy(&a, pool, 8);",
        "uint64_t a = 0; write(1, pool, 1); a = pool[0];",
    ];
    for form in forms {
        let recovery = Recovery::new(&format!("{form} return a + 10;"));
        let ends = recovery.explore(&[(0, 8)], |question| {
            let answer = |value: u64| {
                let mut bytes = value.to_le_bytes().to_vec();
                bytes.resize(question.len, 0);
                bytes
            };
            vec![answer(1), answer(2)]
        });
        let seen: Vec<_> = ends.iter().map(|end| end.end).collect();
        assert!(
            seen.contains(&exited(11)) && seen.contains(&exited(12)),
            "{form}: {seen:?}"
        );
    }
}

#[test]
fn a_load_across_lines_and_pages_is_answered_in_full() {
    let recovery = Recovery::new(
        "uint64_t a = *(volatile uint64_t *)((char *)pool + 60);
         uint64_t b = *(volatile uint64_t *)((char *)pool + 4092); printf(\"%lx %lx\\n\", a, b);",
    );
    let ends = recovery.explore(&[(60, 68), (4092, 4100)], |question| {
        vec![vec![question.offset as u8; question.len]]
    });
    assert_eq!(ends.len(), 1);
    // Two questions for the second load, one for each page.
    assert_eq!(ends[0].output_of(1), b"3c3c3c3c3c3c3c3c fcfcfcfc\n");
}

#[test]
fn crashes_and_failed_assertions_of_a_branch_are_its_end() {
    let recovery = Recovery::new(
        "if (pool[0] == 1) abort(); if (pool[0] == 2) *(volatile int *)8 = 1; return 0;",
    );
    let ends = recovery.explore(&[(0, 8)], |_| words(&[0, 1, 2]));
    let seen: Vec<_> = ends.iter().map(|end| end.end).collect();
    let signal = |signal| ProcessEnd::Signaled { signal };
    assert_eq!(seen, [exited(0), signal(6), signal(11)]);
}

#[test]
fn a_branch_that_uses_too_much_processor_time_has_hung() {
    let recovery = Recovery::new("puts(\"loop\"); fflush(stdout); while (pool[0]) ; return 0;");
    let ends = recovery.explore_within(Duration::from_secs(1), &[(0, 8)], |_| words(&[0, 1]));
    assert_eq!(
        ends.iter().map(|end| end.hung).collect::<Vec<_>>(),
        [false, true]
    );
    assert_eq!(ends[1].output_of(1), b"loop\n");
}

#[test]
fn a_branch_that_waits_for_nothing_has_to_be_run_anew() {
    let recovery = Recovery::new("if (pool[0]) raise(SIGSTOP); return 0;");
    let (mut target, step) = recovery.start(&[(0, 8)]);
    let ExplorationStep::Question(question) = step else {
        panic!("{step:?}")
    };
    for (keep, word) in [(true, 1), (false, 0)] {
        let answer = &words(&[word])[0];
        let step = target.answer(question.branch, answer, keep).unwrap();
        match word {
            0 => assert!(matches!(step, ExplorationStep::End(_)), "{step:?}"),
            _ => assert!(
                matches!(step, ExplorationStep::RunAnew(SharedEffect::Wait)),
                "{step:?}"
            ),
        }
    }
}

#[test]
fn what_copies_of_a_process_would_share_has_to_be_run_anew() {
    let effects = [
        "if (fork() == 0) _exit(0);",
        "open(\"/dev/shm/brownout-explore-test\", O_WRONLY | O_CREAT, 0600);",
        "int ends[2]; pipe(ends);",
        "char byte; read(0, &byte, 1);",
        "pread(fd, (char *)pool, 8, 0);",
        "alarm(1);",
        "mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 131072);",
        "mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);",
        "mmap(0, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);",
        "mprotect(pool, 4096, PROT_READ);",
        "ftruncate(fd, 100);",
        "dup2(2, 1);",
        "stat((char *)pool, &(struct stat){0});",
        "open((char *)pool, O_RDONLY);",
        "usleep(1);",
        "pthread_t thread; pthread_create(&thread, 0, (void *(*)(void *))exit, 0);",
    ];
    for effect in effects {
        let recovery = Recovery::new(&format!("{effect} return 0;"));
        let (_, step) = recovery.start(&[(0, 8)]);
        assert!(
            matches!(step, ExplorationStep::RunAnew(_)),
            "{effect}: {step:?}"
        );
    }
    let (_, step) = Recovery::new("alarm(1);").start(&[(0, 8)]);
    assert!(
        matches!(step, ExplorationStep::RunAnew(SharedEffect::Call(37))),
        "{step:?}"
    );
}

#[test]
fn mappings_of_the_same_open_page_show_the_same_bytes() {
    let recovery = Recovery::new(
        "pool[1] = 7;
         volatile uint64_t *head = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
         head[2] = 8; int sum = head[0] + head[1] + pool[2];
         munmap((void *)head, 4096); munmap((void *)pool, 65536);
         head = mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0);
         return sum + head[0] + head[2];",
    );
    let ends = recovery.explore(&[(0, 8)], |_| words(&[1, 2]));
    let seen: Vec<_> = ends.iter().map(|end| end.end).collect();
    assert_eq!(seen, [exited(7 + 8 + 1 + 1 + 8), exited(7 + 8 + 2 + 2 + 8)]);
}

#[test]
fn a_kind_of_mapping_that_the_system_refuses_is_refused() {
    let recovery = Recovery::new(
        "void *at = mmap(0, 4096, PROT_READ, MAP_SHARED, 99, 0);
         return (at == MAP_FAILED) + 2 * (mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 1) == MAP_FAILED) + pool[0];",
    );
    let ends = recovery.explore(&[(0, 8)], |_| words(&[0]));
    assert_eq!(ends[0].end, exited(3));
}

#[test]
fn files_are_read_where_no_other_branch_moves_the_position() {
    let open = "int file = open(\"/proc/self/status\", O_RDONLY); char byte;";
    let read = "read(file, &byte, 1);";
    let before = Recovery::new(&format!("{open} {read} return pool[0];"));
    assert_eq!(before.explore(&[(0, 8)], |_| words(&[1, 2])).len(), 2);
    let after = Recovery::new(&format!("int a = pool[0]; {open} {read} return a;"));
    assert_eq!(after.explore(&[(0, 8)], |_| words(&[1, 2])).len(), 2);
    // Both the copy and the process that was copied share the position.
    let across = Recovery::new(&format!("{open} int a = pool[0]; {read} return a;"));
    let (mut target, step) = across.start(&[(0, 8)]);
    let ExplorationStep::Question(question) = step else {
        panic!("{step:?}")
    };
    for keep in [true, false] {
        let step = target
            .answer(question.branch, &words(&[1])[0], keep)
            .unwrap();
        assert!(
            matches!(step, ExplorationStep::RunAnew(SharedEffect::Call(0))),
            "{step:?}"
        );
    }
}

#[test]
fn processes_that_wait_can_be_released() {
    let recovery = Recovery::new(READ_WORD);
    let (mut target, step) = recovery.start(&[(0, 8)]);
    let ExplorationStep::Question(question) = step else {
        panic!("{step:?}")
    };
    let first = target
        .answer(question.branch, &words(&[1])[0], true)
        .unwrap();
    assert!(matches!(first, ExplorationStep::End(end) if end.end == exited(1)));
    assert_eq!(target.waiting(), 1);
    target.release(question.branch);
    assert_eq!(target.waiting(), 0);
    assert!(
        target
            .answer(question.branch, &words(&[1])[0], false)
            .is_err()
    );
}
