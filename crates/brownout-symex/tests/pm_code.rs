//! The static analysis of files: which instructions of small programs modify persistent memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use brownout_symex::{AnalysedFile, AnalysisError, PmGuide, PmOperationKind as Kind};

const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
struct node { struct node *next; long value; };
struct node *root;
__attribute__((noinline)) void set(struct node *node, long value) { node->value = value; }
__attribute__((noinline)) void count(long *counter) { *counter += 1; }
__attribute__((noinline)) void *map_file(int fd) { return mmap(0, 4096, 3, MAP_SHARED, fd, 0); }
__attribute__((noinline)) void *map_nothing(void) { return mmap(0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
__attribute__((noinline)) void append(long value) { root->next->value = value; }
__attribute__((noinline)) void copy(const char *text) { memcpy(root, text, strlen(text)); }
__attribute__((noinline)) void sync_all(void) { msync(root, 4096, MS_SYNC); }
__attribute__((noinline)) void say(const char *text) { puts(text); }
int main(int argc, char **argv) {
    long counter = 0;
    long *heap = map_nothing();
    root = map_file(open(argv[1], O_RDWR));
    count(heap); count(&counter);
    if (argc > 3) { set(root, 7); append(atoi(argv[2])); copy(argv[1]); sync_all(); }
    else say("nothing");
    return (int)counter;
}
"#;

struct Built {
    directory: tempfile::TempDir,
}

impl Built {
    fn new(options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("program.c");
        fs::write(&source, PROGRAM).unwrap();
        let mut compiler = Command::new("cc");
        compiler
            .args(["-w", "-Wl,--build-id", "-o"])
            .arg(directory.path().join("program"));
        assert!(
            compiler
                .args(options)
                .arg(&source)
                .status()
                .unwrap()
                .success()
        );
        Self { directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("program")
    }

    /// The functions with operations, by name, and what these do.
    fn operations(&self, code: &AnalysedFile) -> Vec<(String, Kind)> {
        let output = Command::new("nm").arg(self.path()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut functions: Vec<(u64, String)> = Vec::new();
        for line in text.lines() {
            if let [address, "T" | "t", name] = line.split_whitespace().collect::<Vec<_>>()[..] {
                functions.push((u64::from_str_radix(address, 16).unwrap(), name.to_owned()));
            }
        }
        functions.sort();
        let name = |pc: u64| {
            let next = functions.partition_point(|(start, _)| *start <= pc);
            functions[next - 1].1.clone()
        };
        let mut found: Vec<_> = code
            .operations()
            .iter()
            .map(|&(pc, kind)| (name(pc), kind))
            .collect();
        found.sort();
        found.dedup();
        found
    }
}

fn code_of(path: &Path) -> AnalysedFile {
    AnalysedFile::of_file(path, None).unwrap()
}

#[test]
fn pointers_to_a_mapped_file_are_followed() {
    for level in ["-O0", "-O1", "-O2"] {
        let built = Built::new(&[level, "-fno-inline"]);
        let found = built.operations(&code_of(&built.path()));
        let expected = [
            ("append", Kind::Store),
            ("copy", Kind::Call),
            ("set", Kind::Store),
            ("sync_all", Kind::Call),
        ];
        let expected = expected.map(|(name, kind)| (name.to_owned(), kind));
        assert_eq!(found, expected, "{level}");
    }
}

#[test]
fn functions_of_a_stripped_file_come_from_its_unwind_tables() {
    let built = Built::new(&["-O1", "-fno-inline"]);
    let with_symbols = code_of(&built.path());
    let stripped = built.directory.path().join("stripped");
    let status = Command::new("strip")
        .arg("-o")
        .arg(&stripped)
        .arg(built.path())
        .status();
    assert!(status.unwrap().success());
    let without = code_of(&stripped);
    assert!(without.functions() > 10);
    assert_eq!(without.operations(), with_symbols.operations());
}

#[test]
fn what_was_found_is_kept_and_damage_to_it_costs_time_only() {
    let built = Built::new(&["-O1"]);
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");
    let fresh = AnalysedFile::of_file(&built.path(), Some(&cache)).unwrap();
    let entry = fs::read_dir(&cache)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let kept = fs::read(&entry).unwrap();
    let again = || AnalysedFile::of_file(&built.path(), Some(&cache)).unwrap();
    assert_eq!(again().operations(), fresh.operations());
    for at in [0, 17, kept.len() / 2, kept.len() - 1] {
        let mut damaged = kept.clone();
        damaged[at] ^= 0x40;
        for content in [&damaged[..], &kept[..at]] {
            fs::write(&entry, content).unwrap();
            assert_eq!(again().operations(), fresh.operations());
            assert_eq!(fs::read(&entry).unwrap(), kept, "it is written anew");
        }
    }
    // A cache that cannot be written.
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let code = AnalysedFile::of_file(&built.path(), Some(&file)).unwrap();
    assert_eq!(code.operations(), fresh.operations());
}

#[test]
fn priorities_go_up_through_calls_and_branches() {
    let built = Built::new(&["-O1", "-fno-inline"]);
    let code = code_of(&built.path());
    let output = Command::new("nm").arg(built.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let address = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.ends_with(&format!(" T {name}")))
            .unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    };
    const BIAS: u64 = 0x5555_5555_4000;
    let mut guide = PmGuide::default();
    guide.add_code(&code, BIAS, &mut |_| false);
    let mut priority = |name: &str| guide.priority(BIAS + address(name));
    assert_eq!(priority("say"), 0);
    assert!(priority("set") > 0);
    assert!(priority("main") > priority("say"));
    assert_eq!(guide.operations(), (code.operations().len(), 0));
    let known = code.operations()[0].0 + BIAS;
    guide.add_operations([known]);
    assert_eq!(guide.operations().1, 1);
}

#[test]
fn what_is_no_elf_file_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text");
    let missing = AnalysedFile::of_file(&path, None).unwrap_err();
    assert!(matches!(missing, AnalysisError::Read { .. }));
    let elf = fs::read("/bin/true").unwrap();
    let mut cut: Vec<Vec<u8>> = [0, 3, 63, 200, elf.len() / 2]
        .map(|len| elf[..len].to_vec())
        .into();
    cut.push(b"#!/bin/sh\n".to_vec());
    for content in cut {
        fs::write(&path, &content).unwrap();
        // Whatever is left of a file is analysed or refused; nothing panics.
        if let Err(error) = AnalysedFile::of_file(&path, None) {
            assert!(error.to_string().contains("text"), "{error}");
        }
    }
}
