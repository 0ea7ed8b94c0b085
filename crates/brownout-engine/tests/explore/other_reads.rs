//! Reads of explored files that are no loads.

use brownout_engine::explore::{ExplorationStep, Question};

use crate::fixture::{Recovery, exited, words};

/// Lets the first byte of a question at the beginning of the pool be one of these.
fn first_bytes(question: &Question, values: &[u8]) -> Vec<Vec<u8>> {
    assert_eq!(question.offset, 0);
    let answer = |&value: &u8| {
        let mut bytes = vec![0; question.len];
        bytes[0] = value;
        bytes
    };
    values.iter().map(answer).collect()
}

#[test]
fn a_read_of_the_file_is_a_question_like_a_load() {
    // A page with open bytes, one that has none, and a store to each before the read.
    let recovery = Recovery::new(
        "uint64_t a, b, c; pool[1] = 5; pool[16384] = 9;
         if (pread(fd, &a, 8, 0) != 8 || pread(fd, &b, 8, 8) != 8 || pread(fd, &c, 8, 131072) != 8) return 98;
         return a + b + c + pool[0];",
    );
    let ends = recovery.explore(&[(0, 8)], |_| words(&[1, 2]));
    let seen: Vec<_> = ends.iter().map(|end| end.end).collect();
    assert_eq!(seen, [exited(1 + 5 + 9 + 1), exited(2 + 5 + 9 + 2)]);
    assert!(ends.iter().all(|end| end.reads.len() == 1));
}

#[test]
fn what_a_read_has_shown_is_what_a_later_mapping_shows() {
    let recovery = Recovery::new(
        "munmap((void *)pool, 262144); uint64_t a = 0; int other = open(argv[1], O_RDONLY);
         if (read(other, &a, 8) != 8) return 98;
         pool = mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0); return 10 * a + pool[0];",
    );
    let ends = recovery.explore(&[(0, 8)], |_| words(&[1, 2]));
    let seen: Vec<_> = ends.iter().map(|end| end.end).collect();
    assert_eq!(seen, [exited(11), exited(22)]);
}

#[test]
fn a_read_ends_with_the_file_and_reports_errors() {
    let recovery = Recovery::new(
        "char bytes[16]; int wrong = open(argv[1], O_WRONLY);
         return pread(fd, bytes, 16, 262140) == 4 && pread(fd, bytes, 16, 262144) == 0
           && pread(fd, bytes, 16, -1) == -1 && pread(wrong, bytes, 16, 0) == -1
           && pread(fd, (void *)8, 16, 0) == -1 && pool[0] == 1;",
    );
    let ends = recovery.explore(&[(0, 1)], |question| first_bytes(question, &[1]));
    assert_eq!(ends[0].end, exited(1));
}

#[test]
fn a_private_mapping_may_be_read_as_a_whole() {
    let recovery = Recovery::new(
        "volatile uint64_t *copy = mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
         return 10 * copy[0] + pool[0];",
    );
    let ends = recovery.explore(&[(0, 8)], |question| first_bytes(question, &[1, 2]));
    let seen: Vec<_> = ends.iter().map(|end| end.end).collect();
    assert_eq!(seen, [exited(11), exited(22)]);
    let (question, _) = &ends[0].reads[0];
    let open = question.open.iter().filter(|&&open| open);
    assert_eq!((question.len, open.count()), (4096, 8));
}

#[test]
fn a_read_of_a_page_whose_mapping_is_gone_has_to_be_run_anew() {
    let recovery = Recovery::new(
        "uint64_t a; pool[16384] = 9; munmap((void *)pool, 262144); pread(fd, &a, 8, 131072); return a;",
    );
    let (_, step) = recovery.start(&[(0, 8)]);
    assert!(matches!(step, ExplorationStep::RunAnew(_)), "{step:?}");
}

#[test]
fn a_read_into_several_buffers_is_a_question_like_a_load() {
    let calls = [
        "readv(other, parts, 2)",
        "preadv(other, parts, 2, 0)",
        "preadv2(other, parts, 2, 0, 0)",
        "preadv2(other, parts, 2, -1, 0)",
    ];
    for call in calls {
        let recovery = Recovery::new(&format!(
            "uint32_t low = 0; unsigned char rest[8] = {{0}}; int other = open(argv[1], O_RDONLY);
             struct iovec parts[2] = {{{{&low, 4}}, {{rest, 8}}}}; pool[1] = 5;
             if ({call} != 12) return 98;
             return 10 * low + rest[4] + pool[0];"
        ));
        let ends = recovery.explore(&[(0, 8)], |question| first_bytes(question, &[1, 2]));
        let seen: Vec<_> = ends.iter().map(|end| end.end).collect();
        assert_eq!(seen, [exited(10 + 5 + 1), exited(20 + 5 + 2)], "{call}");
        assert!(ends.iter().all(|end| end.reads.len() == 1), "{call}");
    }
}

#[test]
fn reads_move_the_position_that_they_read_from_and_no_other() {
    // Without a copy of the process, the position is its own.
    let recovery = Recovery::new(
        "char bytes[8]; struct iovec part = {bytes, 6}; off_t at = 1; int other = open(argv[1], O_RDONLY);
         if (readv(other, &part, 1) != 6 || lseek(other, 0, SEEK_CUR) != 6) return 1;
         if (preadv2(other, &part, 1, -1, 0) != 6 || lseek(other, 0, SEEK_CUR) != 12) return 2;
         if (preadv(other, &part, 1, 0) != 6 || lseek(other, 0, SEEK_CUR) != 12) return 3;
         if (sendfile(1, other, &at, 4) != 4 || at != 5 || lseek(other, 0, SEEK_CUR) != 12) return 4;
         if (sendfile(1, other, 0, 4) != 4 || lseek(other, 0, SEEK_CUR) != 16) return 5;",
    );
    let ends = recovery.explore(&[(0, 8)], |question| vec![vec![b'x'; question.len]]);
    assert_eq!(ends[0].end, exited(0));
    assert_eq!(ends[0].output_of(1), b"xxxx\0\0\0\0");
}

#[test]
fn a_read_into_several_buffers_reports_errors() {
    let recovery = Recovery::new(
        "char bytes[16]; struct iovec good = {bytes, 16}, bad[2] = {{bytes, 4}, {(void *)8, 4}}, none = {bytes, 0};
         struct iovec negative = {bytes, -1};
         return preadv(fd, &good, 1, 262140) == 4 && preadv(fd, &good, 1, -1) == -1 && preadv(fd, &none, 1, 0) == 0
           && preadv(fd, &negative, 1, 0) == -1 && preadv(fd, &good, 2000, 0) == -1
           && preadv(fd, (void *)8, 1, 0) == -1 && preadv(fd, bad, 2, 0) == 4 && pool[0] == 1;",
    );
    let ends = recovery.explore(&[(0, 1)], |question| first_bytes(question, &[1]));
    assert_eq!(ends[0].end, exited(1));
}

#[test]
fn a_read_into_a_buffer_in_persistent_memory_has_to_be_run_anew() {
    let recovery = Recovery::new(
        "struct iovec part = {(void *)pool, 8}; preadv(fd, &part, 1, 4096); return 0;",
    );
    let (_, step) = recovery.start(&[(0, 8)]);
    assert!(matches!(step, ExplorationStep::RunAnew(_)), "{step:?}");
}

#[test]
fn what_is_sent_to_standard_output_is_a_question_and_output_of_the_branch() {
    let recovery = Recovery::new(
        "off_t at = 6; pool[1] = 0x6362;
         if (sendfile(1, fd, &at, 4) != 4 || at != 10) return 98;
         if (sendfile(1, open(argv[1], O_RDONLY), 0, 2) != 2) return 97;
         at = 262143; if (sendfile(1, fd, &at, 9) != 1 || sendfile(1, fd, &at, 9) != 0) return 96;
         return 0;",
    );
    let mut asked = Vec::new();
    let ends = recovery.explore(&[(0, 8)], |question| {
        asked.push((question.offset, question.len));
        vec![vec![b'x'; question.len], vec![b'y'; question.len]]
    });
    assert!(ends.iter().all(|end| end.end == exited(0)), "{ends:?}");
    let printed: Vec<_> = ends.iter().map(|end| end.output_of(1)).collect();
    let expected = ["xxbcxx\0", "xxbcyy\0", "yybcxx\0", "yybcyy\0"];
    assert_eq!(printed, expected.map(|text| text.as_bytes().to_vec()));
    assert_eq!(asked[..2], [(6, 4), (0, 2)]);
}

#[test]
fn a_copy_that_the_kernel_refuses_changes_nothing() {
    let recovery = Recovery::new(
        "int root = open(\"/\", O_RDONLY);
         return copy_file_range(fd, 0, root, 0, 8, 0) == -1 ? pool[0] : 98;",
    );
    let ends = recovery.explore(&[(0, 8)], |_| words(&[1, 2]));
    let seen: Vec<_> = ends.iter().map(|end| end.end).collect();
    assert_eq!(seen, [exited(1), exited(2)]);
}

#[test]
fn a_copy_to_a_file_has_to_be_run_anew() {
    let copies = [
        "off_t to = 4096; copy_file_range(fd, 0, fd, &to, 8, 0);",
        "off_t at = 0; sendfile(fd, fd, &at, 8);",
        "off_t at = 0; sendfile(1, open(\"/proc/self/exe\", O_RDONLY), &at, 8);",
    ];
    for copy in copies {
        let (_, step) = Recovery::new(copy).start(&[(0, 8)]);
        assert!(
            matches!(step, ExplorationStep::RunAnew(_)),
            "{copy}: {step:?}"
        );
    }
}
