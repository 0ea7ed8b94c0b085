//! `brownout image`.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

use brownout_trace::{Address, EventKind};

use crate::traces::{POOL, Recording, pool_and_semaphore};
use crate::{CommandResult, brownout, clean};

fn image(trace: &Path, output: &Path, options: &[&str]) -> CommandResult {
    let mut arguments = vec![
        "image",
        trace.to_str().unwrap(),
        "-o",
        output.to_str().unwrap(),
    ];
    arguments.extend(options);
    brownout(&arguments)
}

#[test]
fn persistent_files_are_written_as_they_are_at_the_end() {
    let (directory, path) = pool_and_semaphore(&[]).finish();
    let out = directory.path().join("out");
    let written = clean(&["image", path.to_str().unwrap(), "-o", out.to_str().unwrap()]);
    let pool = out.join("mnt/pmem/pool");
    assert_eq!(written, format!("{} (8192 bytes)\n", pool.display()));
    let mut expected = vec![0; 8192];
    expected[..8].copy_from_slice(b"POOLHEAD");
    expected[64] = 42;
    assert!(fs::read(pool).unwrap() == expected);
    assert!(!out.join("dev").exists(), "not persistent, so not written");
}

#[test]
fn an_image_at_an_event_includes_that_event() {
    let mut recording = Recording::start(&["pool"]);
    let pool = recording.file(1, "/mnt/pool");
    recording.map(pool, POOL, 4096);
    let first = recording.store(POOL, &[1]);
    let second = recording.store(POOL, &[2]);
    let (directory, path) = recording.finish();
    for (event, value) in [(first.0 - 1, 0), (first.0, 1), (second.0, 2)] {
        let out = directory.path().join(event.to_string());
        let run = image(&path, &out, &["--at", &event.to_string()]);
        assert_eq!(run.status, Some(0), "{}", run.stderr);
        assert_eq!(fs::read(out.join("mnt/pool")).unwrap()[0], value);
    }
}

#[test]
fn a_huge_file_stays_sparse() {
    let mut recording = Recording::start(&["pool"]);
    let pool = recording.file(1, "/mnt/pool");
    let size = 1 << 40;
    recording.map(pool, POOL, size);
    recording.store(POOL + size - 4, b"tail");
    let (directory, path) = recording.finish();
    let out = directory.path().join("out");
    assert_eq!(image(&path, &out, &[]).status, Some(0));
    let metadata = fs::metadata(out.join("mnt/pool")).unwrap();
    assert_eq!(metadata.len(), size);
    assert!(metadata.blocks() * 512 <= 1 << 20);
}

#[test]
fn an_event_that_is_not_in_the_trace_is_rejected() {
    let (directory, path) = pool_and_semaphore(&[]).finish();
    let out = directory.path().join("out");
    let run = image(&path, &out, &["--at", "9"]);
    assert_eq!(run.status, Some(2));
    assert!(run.stderr.contains("event 9 is not in"), "{}", run.stderr);
    assert!(!out.exists());
}

#[test]
fn nothing_is_written_before_a_file_is_mapped() {
    let (directory, path) = pool_and_semaphore(&[]).finish();
    let run = image(&path, &directory.path().join("out"), &["--at", "0"]);
    assert_eq!(run.status, Some(0));
    assert!(
        run.stderr.contains("no persistent file was mapped yet"),
        "{}",
        run.stderr
    );
}

#[test]
fn without_persistent_files_the_mapped_files_are_listed() {
    let mut recording = Recording::start(&[]);
    let semaphore = recording.file(2, "/dev/shm/sem");
    recording.map(semaphore, POOL, 32);
    let (directory, path) = recording.finish();
    let out = directory.path().join("out");
    let run = image(&path, &out, &[]);
    assert_eq!(run.status, Some(0));
    assert!(
        run.stderr.contains("not selected: /dev/shm/sem"),
        "{}",
        run.stderr
    );
    let run = image(&path, &out, &["--pm", "sem"]);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
    assert_eq!(fs::metadata(out.join("dev/shm/sem")).unwrap().len(), 32);
}

#[test]
fn existing_files_are_not_overwritten() {
    let mut recording = pool_and_semaphore(&["pool", "sem"]);
    recording.store(POOL, &[1]);
    let (directory, path) = recording.finish();
    let out = directory.path().join("out");
    fs::create_dir_all(out.join("mnt/pmem")).unwrap();
    fs::write(out.join("mnt/pmem/pool"), "mine").unwrap();
    let run = image(&path, &out, &[]);
    assert_eq!(run.status, Some(2));
    assert!(run.stderr.contains("already exists"), "{}", run.stderr);
    assert_eq!(fs::read(out.join("mnt/pmem/pool")).unwrap(), b"mine");
    assert!(!out.join("dev").exists(), "all or none");
}

#[test]
fn symbolic_links_are_not_followed() {
    let (directory, path) = pool_and_semaphore(&[]).finish();
    let (out, own) = (directory.path().join("out"), directory.path().join("own"));
    fs::create_dir(&out).unwrap();
    fs::create_dir_all(own.join("pmem")).unwrap();
    symlink(&own, out.join("mnt")).unwrap();
    let run = image(&path, &out, &[]);
    assert_eq!(run.status, Some(2));
    assert!(run.stderr.contains("is a symbolic link"), "{}", run.stderr);
    assert_eq!(fs::read_dir(own.join("pmem")).unwrap().count(), 0);
}

#[test]
fn a_recorded_path_cannot_leave_the_directory() {
    let mut recording = Recording::start(&["pool"]);
    let pool = recording.file(1, "/../../tmp/pool");
    recording.map(pool, POOL, 4096);
    let (directory, path) = recording.finish();
    let run = image(&path, &directory.path().join("a/b/out"), &["--pm", "**"]);
    assert_eq!(run.status, Some(2));
    assert!(
        run.stderr.contains("is not an absolute path"),
        "{}",
        run.stderr
    );
}

#[test]
fn stores_to_unmapped_addresses_are_reported() {
    let mut recording = pool_and_semaphore(&[]);
    let bytes = &[1];
    recording.add(EventKind::KernelWrite {
        addr: Address(0x99),
        bytes,
        syscall: 0,
    });
    let (directory, path) = recording.finish();
    let run = image(&path, &directory.path().join("out"), &[]);
    assert_eq!(run.status, Some(0));
    assert!(
        run.stderr.contains("1 store to addresses"),
        "{}",
        run.stderr
    );
}

#[test]
fn an_unwritable_directory_is_reported() {
    let (_directory, path) = pool_and_semaphore(&[]).finish();
    let run = image(&path, Path::new("/proc/nowhere"), &[]);
    assert_eq!(run.status, Some(2));
    assert!(run.stderr.contains("cannot write"), "{}", run.stderr);
}
