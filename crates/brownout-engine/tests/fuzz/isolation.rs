//! Executions do not see what others have done.

use crate::fixture::{Target, content, run, word};
use brownout_engine::fuzz::CopyEnd;
use std::fs;
use std::time::{Duration, Instant};

/// Ends with what the pool held at its start, and stores to it by an instruction, by a copy, by system calls and by making it longer.
const STORES: &str = "
  open_pool(argv[1]);
  char how = 0; read(0, &how, 1);
  uint64_t sum = pool[0] + pool[1000] + pool[2000] + pool[3000] + pool[7000];
  struct stat stat; fstat(fd, &stat);
  sum += stat.st_size != 65536;
  uint64_t one = 1;
  if (how == 'i') pool[0] = 1;
  if (how == 'c') memset((void *)(pool + 1000), 1, 9000);
  if (how == 'r') __asm__ volatile(\"rep stosb\" :: \"D\"(pool + 2000), \"c\"(5000), \"a\"(1) : \"memory\");
  if (how == 'w') pwrite(fd, &one, 8, 3000 * 8);
  if (how == 'k') { int zero = open(\"/proc/self/exe\", O_RDONLY); read(zero, (void *)(pool + 7000), 8); }
  if (how == 'l') ftruncate(fd, 100000);
  if (how == 'u') unlink(argv[1]);
  if (how == 'n') { unlink(argv[1]); open_pool(argv[1]); pool[0] = 1; }
  return sum != 0;
";

#[test]
fn the_pool_is_restored_after_each_execution() {
    let target = Target::new("", STORES);
    let mut server = target.start();
    for how in ["i", "c", "r", "w", "k", "l", "u", "n", "-"] {
        for _ in 0..2 {
            let end = run(&mut server, how.as_bytes()).end;
            assert_eq!(end, CopyEnd::Exited(0), "before {how}");
        }
    }
    assert!(!server.has_unnoticed_stores());
}

#[test]
fn an_execution_shows_the_files_that_it_leaves() {
    let target = Target::new("", STORES);
    let mut server = target.start();
    let files = server.execute(b"i").unwrap().files().unwrap();
    let pool = files[0].as_ref().unwrap();
    assert_eq!((pool.len(), word(pool, 0), word(pool, 1000)), (65536, 1, 0));
    let files = server.execute(b"w").unwrap().files().unwrap();
    let pool = files[0].as_ref().unwrap();
    assert_eq!((word(pool, 0), word(pool, 3000)), (0, 1));
    let removed = server.execute(b"u").unwrap().files().unwrap();
    assert!(removed[0].is_none());
    let longer = server.execute(b"l").unwrap().files().unwrap();
    assert_eq!(longer[0].as_ref().unwrap().len(), 100_000);
}

#[test]
fn executions_start_on_the_image_that_is_set() {
    let target = Target::new(
        "",
        "open_pool(argv[1]);
         uint64_t found = pool[0]; pool[1] = found + 1;
         char byte = 0; read(0, &byte, 1);
         if (byte == 'e') return found;
         pool[0] = 50; return pool[1];",
    );
    let mut server = target.start();
    assert_eq!(run(&mut server, b"e").end, CopyEnd::Exited(0), "no file");
    for value in [7, 9, 7] {
        let image = [Some(content(&[value], 65536))];
        let opened = server
            .set_image(&image)
            .unwrap()
            .expect("it uses the file first");
        assert_eq!(opened.end, CopyEnd::AtInput);
        assert!(!opened.transitions().is_empty());
        let files = opened.files().unwrap();
        assert_eq!(word(files[0].as_ref().unwrap(), 1), value + 1);
        for _ in 0..2 {
            assert_eq!(run(&mut server, b"e").end, CopyEnd::Exited(value as i32));
            assert_eq!(
                run(&mut server, b"x").end,
                CopyEnd::Exited(value as i32 + 1)
            );
        }
    }
    server.set_image(&[None]).unwrap();
    assert_eq!(run(&mut server, b"e").end, CopyEnd::Exited(0));
    assert!(server.set_image(&[]).is_err(), "an image without the file");
}

#[test]
fn the_image_of_a_target_that_reads_its_input_first_can_change_at_any_time() {
    let target = Target::new(
        "",
        "char byte = 0; read(0, &byte, 1); open_pool(argv[1]);
         uint64_t found = pool[0]; pool[0] = 99; return found + (byte == 'x');",
    );
    let mut server = target.start();
    for value in [3, 4] {
        let image = [Some(content(&[value], 65536))];
        assert!(server.set_image(&image).unwrap().is_none());
        let [plain, more] = [b"-", b"x"].map(|input| run(&mut server, input).end);
        let expected = [value as i32, value as i32 + 1].map(CopyEnd::Exited);
        assert_eq!([plain, more], expected);
    }
}

#[test]
fn other_files_that_are_written_are_reported() {
    let target = Target::new(
        "",
        "open_pool(argv[1]); char path[4096]; sprintf(path, \"%s.log\", argv[1]);
         char byte = 0; read(0, &byte, 1);
         if (byte == 'o') { int log = open(path, O_RDWR | O_CREAT, 0666); }
         if (byte == 'r') open(\"/etc/passwd\", O_RDONLY);
         printf(\"some output\\n\");",
    );
    let mut server = target.start();
    assert!(!server.execute(b"-").unwrap().wrote_files());
    assert!(!server.execute(b"r").unwrap().wrote_files());
    assert!(server.execute(b"o").unwrap().wrote_files());
    assert!(fs::exists(target.beside("pool.log")).unwrap());
}

#[test]
fn positions_of_files_that_are_open_at_the_fork_point_are_restored() {
    let target = Target::new(
        "",
        "int file = open(\"/proc/self/exe\", O_RDONLY); char magic[4], more[4];
         read(file, magic, 2);
         read(0, more, 2); read(file, magic + 2, 2);
         return memcmp(magic, \"\\177ELF\", 4) != 0;",
    );
    let mut server = target.start();
    for _ in 0..3 {
        assert_eq!(run(&mut server, b"ab").end, CopyEnd::Exited(0));
    }
}

#[test]
fn a_huge_file_with_holes_costs_what_it_holds() {
    let target = Target::new(
        "",
        "open_pool(argv[1]);
         uint64_t one = 1, far = 0; char how = 0;
         read(0, &how, 1);
         pread(fd, &far, 8, 1L << 39);
         if (how == 'h') { ftruncate(fd, 1L << 40); pwrite(fd, &one, 8, 1L << 39); }
         return far;",
    );
    let mut server = target.start();
    let files = server.execute(b"h").unwrap().files().unwrap();
    let pool = files[0].as_ref().unwrap();
    assert_eq!((pool.len(), word(pool, 1 << 36)), (1 << 40, 1));
    assert_eq!(run(&mut server, b"-").end, CopyEnd::Exited(0));
    server.set_image(&files).unwrap();
    let files = server.execute(b"-").unwrap().files().unwrap();
    assert_eq!(files[0].as_ref().unwrap().len(), 65536);
}

#[test]
fn an_image_on_which_the_target_does_not_come_to_its_input_takes_the_time_of_an_execution() {
    let mut target = Target::new(
        "",
        "open_pool(argv[1]);
         while (pool[0] == 7) ;
         char how = 0; read(0, &how, 1);",
    );
    target.options.timeout = Duration::from_secs(1);
    let mut server = target.start();
    let started = Instant::now();
    let stuck = server.set_image(&[Some(content(&[7], 65536))]).unwrap();
    assert_eq!(stuck.map(|opening| opening.end), Some(CopyEnd::TimedOut));
    // Much less than the time that the first start may take.
    assert!(
        started.elapsed() < Duration::from_secs(8),
        "{:?}",
        started.elapsed()
    );
    server.set_image(&[Some(content(&[1], 65536))]).unwrap();
    assert_eq!(run(&mut server, b"-").end, CopyEnd::Exited(0));
}
