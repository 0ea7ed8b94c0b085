//! A digest of the programs that a recovery starts, so that results of different builds of them are not mixed.
//!
//! A program is a word of the command that names an ELF file or a script with `#!` that can be executed, or a file whose ending is that
//! of a script. Words in quotes are split in turn, because `sh -c` is given a command as one word. The word after the name of an
//! interpreter counts whatever it looks like.
//!
//! The shared libraries of a program belong to it, except those of the system.
//!
//! Can miss: libraries of the system; programs that a shell finds by `PATH`, in variables or below another directory (`cd build &&
//! ./check`); those that a script starts; libraries that are loaded while a program runs.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::Recovery;
use crate::branching::EVENT;
use crate::shared_libraries::shared_libraries;
use crate::shells::is_shell;

/// Files with these endings are programs even if they are not executable: an interpreter is given their names.
const SCRIPTS: [&str; 6] = ["sh", "py", "pl", "rb", "js", "lua"];

/// Programs that are given the name of a script, besides shells.
const INTERPRETERS: [&str; 5] = ["python", "python3", "perl", "ruby", "node"];

/// Characters that end a word of a shell, besides white space.
const SEPARATORS: [char; 7] = [';', '|', '&', '(', ')', '<', '>'];

/// The digest of all programs that the commands name by their paths; empty if there are none.
pub fn program_digest(recovery: &Recovery) -> String {
    let commands = [Some(&recovery.command), recovery.client.as_ref()];
    let programs = commands
        .into_iter()
        .flatten()
        .flat_map(|command| programs(command, &recovery.directory));
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    let mut add = |content: &[u8]| {
        hash.update(&content.len().to_le_bytes());
        hash.update(content);
    };
    let mut libraries = BTreeSet::new();
    let mut is_empty = true;
    for program in programs {
        if let Ok(content) = std::fs::read(&program) {
            libraries.extend(shared_libraries(&program, &content, &recovery.directory));
            add(&content);
            is_empty = false;
        }
    }
    // One that several programs use counts once.
    let contents = libraries.iter().filter_map(|path| std::fs::read(path).ok());
    contents.for_each(|content| add(&content));
    match is_empty {
        true => String::new(),
        false => format!("{:032x}", hash.digest128()),
    }
}

/// Whether recovery may use the variable that says when power failed: its command, or a program that the command names, mentions it.
pub fn may_depend_on_event(recovery: &Recovery) -> bool {
    let event = EVENT.as_bytes();
    let mentions = |content: &[u8]| content.windows(event.len()).any(|part| part == event);
    let programs = programs(&recovery.command, &recovery.directory).into_iter();
    let mut contents = programs.filter_map(|program| std::fs::read(program).ok());
    recovery.command.contains(EVENT) || contents.any(|content| mentions(&content))
}

/// The programs that a command names, in the order of its words.
fn programs(command: &str, directory: &Path) -> Vec<PathBuf> {
    let mut programs = Vec::new();
    let mut is_after_interpreter = false;
    // A command that is no list of words is refused elsewhere.
    for word in shell_words::split(command).unwrap_or_default() {
        if word.contains(char::is_whitespace) && word != command {
            programs.extend(self::programs(&word, directory));
        }
        let names = word.split(SEPARATORS).filter(|name| !name.is_empty());
        for name in names {
            let path = directory.join(name);
            let is_script = is_after_interpreter && path.is_file();
            if is_script || is_program(name, &path) {
                programs.push(path);
            }
        }
        is_after_interpreter = is_interpreter(&word);
    }
    programs
}

fn is_interpreter(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    is_shell(name) || INTERPRETERS.contains(&name)
}

/// Whether the file that `name` names is a program. One without a directory would be found by `PATH`, unless it is a script.
fn is_program(name: &str, path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    if extension.is_some_and(|extension| SCRIPTS.contains(&extension)) {
        return path.is_file();
    }
    let is_executable =
        |file: std::fs::Metadata| file.is_file() && file.permissions().mode() & 0o111 != 0;
    name.contains('/') && path.metadata().is_ok_and(is_executable) && begins_as_program(path)
}

/// Whether the kernel could execute the file: a pool that everybody may do everything with is no program.
fn begins_as_program(path: &Path) -> bool {
    let mut start = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && (start == *b"\x7fELF" || start.starts_with(b"#!"))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn another_program_has_another_digest_and_a_pool_has_none() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        let digest = |command: &str| program_digest(&Recovery::new(command, directory.path()));
        write("check.sh", "exit 0");
        write("pool", "a");
        let before = digest("sh check.sh ./pool");
        assert_eq!(before, digest("sh check.sh"));
        write("pool", "b");
        assert_eq!(before, digest("sh check.sh ./pool"));
        write("check.sh", "exit 1");
        assert_ne!(before, digest("sh check.sh ./pool"));
        assert_eq!(digest("true"), "");
    }

    #[test]
    fn programs_are_found_where_a_shell_starts_them() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8], mode: u32| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        };
        write("check", b"\x7fELF, and so on", 0o755);
        write("verify", b"#!/bin/sh\n", 0o755);
        write("plain", b"exit 0", 0o644);
        write("pool", b"data, not a program", 0o777);
        write("x", b"", 0o755);
        let found = |command: &str| -> Vec<String> {
            let programs = programs(command, directory.path()).into_iter();
            let names = programs.map(|path| path.file_name().unwrap().to_owned());
            names.map(|name| name.into_string().unwrap()).collect()
        };
        for (command, expected) in [
            ("./check {pm}", &["check"][..]),
            ("./check ./pool ./x", &["check"]),
            ("sh -c './check {pm}'", &["check"]),
            (
                "timeout 9 sh -ec \"./check {pm} && ./verify {pm}\"",
                &["check", "verify"],
            ),
            ("./check {pm};./verify|cat", &["check", "verify"]),
            ("sh ./plain", &["plain"]),
            ("sh plain ./pool", &["plain"]),
            ("cat plain", &[]),
            ("check {pm}", &[]),
            ("./missing", &[]),
        ] {
            assert_eq!(found(command), expected, "{command}");
        }
    }
}
