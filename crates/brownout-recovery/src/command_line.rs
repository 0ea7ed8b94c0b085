//! Reads the user's command line.
//!
//! A command that only names a program and its arguments is started directly, because a shell costs as much time as a small
//! recovery. Any other command is left to a shell.
//!
//! `{pm}` stands for the path of the first persistent file, `{pm:N}` for that of the N-th. A path need not be UTF-8, unlike the
//! command around it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Refusal;

/// A command line, ready to be started many times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The command as a shell reads it.
    text: OsString,
    /// The program and its arguments; `None` if a shell is needed.
    words: Option<Vec<OsString>>,
}

/// The shell that runs what is not just a program and its arguments.
pub const SHELL: &str = "/bin/sh";

/// Characters with a special meaning for a shell, except quotes.
pub const SHELL_CHARACTERS: &str = "|&;<>()$`*?[]#~!{}=%\n";

/// Stands for a path while words are split: a character that no command contains.
const MARK: char = '\u{10fffe}';

/// A part of a command line.
#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Text(&'a str),
    /// A placeholder: the number of the file, from 0.
    File(usize),
}

impl CommandLine {
    /// Reads a command line whose placeholders stand for `files`.
    pub fn new(command: &str, files: &[PathBuf]) -> Result<Self, Refusal> {
        let parts = split_placeholders(command, files.len())?;
        let mut text = OsString::new();
        // The command with a mark in place of each path, for which words are split as text.
        let mut marked = String::new();
        let mut is_plain = true;
        for part in &parts {
            match part {
                Part::Text(part) => {
                    text.push(part);
                    marked.push_str(part);
                    is_plain &= !part.contains(|c| SHELL_CHARACTERS.contains(c));
                    is_plain &= !part.contains(MARK);
                }
                Part::File(number) => {
                    text.push(quoted(&files[*number]));
                    marked.push(MARK);
                }
            }
        }
        let words = shell_words::split(&marked).map_err(|_| Refusal::Quotes {
            command: command.to_owned(),
        })?;
        let is_plain = is_plain && !words.is_empty();
        let mut paths = parts.iter().filter_map(|part| match part {
            Part::File(number) => Some(files[*number].as_os_str()),
            Part::Text(_) => None,
        });
        let words = words.iter().map(|word| with_paths(word, &mut paths));
        Ok(Self {
            text,
            words: is_plain.then(|| words.collect()),
        })
    }

    /// Whether a command contains a placeholder.
    pub fn has_placeholder(command: &str) -> bool {
        split_placeholders(command, usize::MAX)
            .is_ok_and(|parts| parts.iter().any(|part| matches!(part, Part::File(_))))
    }

    /// The command without a shell, if none is needed.
    pub fn direct(&self) -> Option<Command> {
        let (program, arguments) = self.words.as_ref()?.split_first()?;
        let mut command = Command::new(program);
        command.args(arguments);
        Some(command)
    }

    /// The command through a shell.
    pub fn by_shell(&self) -> Command {
        let mut command = Command::new(SHELL);
        command.arg("-c").arg(&self.text);
        command
    }

    /// The program and its arguments; empty if a shell is needed.
    pub fn words(&self) -> &[OsString] {
        self.words.as_deref().unwrap_or_default()
    }

    /// The command as a shell reads it.
    pub fn text(&self) -> &OsStr {
        &self.text
    }
}

/// The command line that runs a command under a debugger, whose own command line ends before that of the program. The debugger
/// gets the program, not a shell, if the command needs none; a script is no program that it can run. A relative path of the program is
/// relative to `directory`.
pub fn under_debugger(debugger: &str, command: &str, directory: &Path) -> String {
    let is_plain = split_placeholders(command, usize::MAX).is_ok_and(|parts| {
        parts.iter().all(|part| match part {
            Part::Text(text) => !text.contains(|c| SHELL_CHARACTERS.contains(c)),
            Part::File(_) => true,
        })
    });
    if is_plain && !is_script(command, directory) {
        format!("{debugger} {command}")
    } else {
        format!("{debugger} {SHELL} -c {}", shell_words::quote(command))
    }
}

/// Whether the program of a command is a script, which the kernel hands to its interpreter.
fn is_script(command: &str, directory: &Path) -> bool {
    let words = shell_words::split(command).unwrap_or_default();
    let Some(program) = words.first() else {
        return false;
    };
    let found = if program.contains('/') {
        Some(directory.join(program))
    } else {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let mut found = std::env::split_paths(&folders).map(|folder| folder.join(program));
        found.find(|path| path.is_file())
    };
    let mut start = [0; 2];
    let file = found.and_then(|path| File::open(path).ok());
    file.is_some_and(|mut file| file.read_exact(&mut start).is_ok() && start == *b"#!")
}

/// A path as a shell reads it.
fn quoted(path: &Path) -> OsString {
    if let Some(path) = path.to_str() {
        return shell_words::quote(path).into_owned().into();
    }
    let mut bytes = vec![b'\''];
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'\'' => bytes.extend_from_slice(b"'\\''"),
            _ => bytes.push(byte),
        }
    }
    bytes.push(b'\'');
    OsString::from_vec(bytes)
}

/// A word with the next path in place of each mark.
fn with_paths<'a>(word: &str, paths: &mut impl Iterator<Item = &'a OsStr>) -> OsString {
    let mut pieces = word.split(MARK);
    let mut whole = OsString::from(pieces.next().unwrap_or_default());
    for piece in pieces {
        whole.push(paths.next().unwrap_or_default());
        whole.push(piece);
    }
    whole
}

fn split_placeholders(command: &str, files: usize) -> Result<Vec<Part<'_>>, Refusal> {
    let mut parts = Vec::new();
    let mut rest = command;
    while let Some(start) = rest.find("{pm") {
        let (before, from) = rest.split_at(start);
        parts.push(Part::Text(before));
        let placeholder = from.find('}').map_or(from, |end| &from[..=end]);
        let number = match placeholder {
            "{pm}" => Some(1),
            _ => placeholder
                .strip_prefix("{pm:")
                .and_then(|number| number.strip_suffix('}'))
                .and_then(|number| number.parse().ok()),
        };
        match number {
            Some(number) if (1..=files).contains(&number) => parts.push(Part::File(number - 1)),
            _ => {
                return Err(Refusal::Placeholder {
                    text: placeholder.to_owned(),
                    files,
                });
            }
        }
        rest = &from[placeholder.len()..];
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<PathBuf> {
        vec![PathBuf::from("/pm/one"), PathBuf::from("/pm/with space")]
    }

    fn words(command: &str) -> Option<Vec<OsString>> {
        CommandLine::new(command, &files()).unwrap().words
    }

    #[test]
    fn a_debugger_gets_the_program_or_a_shell() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("check"), "\x7fELF").unwrap();
        std::fs::write(directory.path().join("script"), "#!/bin/sh\n").unwrap();
        let gdb = |command| under_debugger("gdb --args", command, directory.path());
        assert_eq!(gdb("./check {pm}"), "gdb --args ./check {pm}");
        assert_eq!(gdb("a || b"), "gdb --args /bin/sh -c 'a || b'");
        let by_shell = "gdb --args /bin/sh -c './script {pm}'";
        assert_eq!(gdb("./script {pm}"), by_shell);
    }

    #[test]
    fn paths_need_not_be_utf_8() {
        let path = OsStr::from_bytes(b"/pm/it's \xff");
        let files = [PathBuf::from(path)];
        let line = CommandLine::new("check {pm} --log={pm}.log", &files);
        // `=` is left to a shell.
        assert_eq!(line.unwrap().words, None);
        let line = CommandLine::new("check {pm} x{pm}.log '{pm}'", &files).unwrap();
        let around = OsStr::from_bytes(b"x/pm/it's \xff.log");
        assert_eq!(line.words(), ["check".as_ref(), path, around, path]);
        let line = CommandLine::new("check {pm} | cat", &files).unwrap();
        let expected = OsStr::from_bytes(b"check '/pm/it'\\''s \xff' | cat");
        assert_eq!(line.text(), expected);
        let echo = CommandLine::new("printf %s {pm}", &files).unwrap();
        let output = echo.by_shell().output().unwrap();
        assert_eq!(output.stdout, path.as_bytes(), "a shell reads the same");
    }

    #[test]
    fn a_program_and_its_arguments_need_no_shell() {
        assert_eq!(
            words("check --all pool").unwrap(),
            ["check", "--all", "pool"]
        );
        assert_eq!(
            words("check 'two words' \"x y\"").unwrap(),
            ["check", "two words", "x y"]
        );
    }

    #[test]
    fn shell_syntax_is_left_to_a_shell() {
        for command in [
            "a | b", "a > b", "A=1 b", "a $B", "a *", "a; b", "a\nb", "~/a", "",
        ] {
            assert_eq!(words(command), None, "{command}");
        }
    }

    #[test]
    fn placeholders_stand_for_any_path() {
        assert_eq!(words("check {pm}").unwrap(), ["check", "/pm/one"]);
        assert_eq!(
            words("check {pm:2} x").unwrap(),
            ["check", "/pm/with space", "x"]
        );
        let line = CommandLine::new("check {pm:2} | cat", &files()).unwrap();
        assert_eq!(line.text(), "check '/pm/with space' | cat");
        assert_eq!(line.words, None);
    }

    #[test]
    fn a_placeholder_without_a_file_is_refused() {
        for text in ["{pm:3}", "{pm:0}", "{pm:x}", "{pm", "{pmx}"] {
            let refusal = CommandLine::new(&format!("check {text}"), &files()).unwrap_err();
            let text = text.to_owned();
            assert_eq!(refusal, Refusal::Placeholder { text, files: 2 });
        }
        assert!(CommandLine::has_placeholder("a {pm:7}"));
        assert!(!CommandLine::has_placeholder("a {p}"));
    }

    #[test]
    fn unpaired_quotes_are_refused() {
        let refusal = CommandLine::new("check 'x", &files()).unwrap_err();
        assert!(matches!(refusal, Refusal::Quotes { .. }));
    }
}
