//! Finds what keeps a command from ever starting, before there is a crash image to start it on.
//!
//! Can miss: commands that a shell finds inside a longer script.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command_line::{SHELL, SHELL_CHARACTERS};

/// Why a command can never be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandProblem {
    #[error("the command is empty")]
    Empty,
    #[error("the command contains an unpaired quote: {command}")]
    Quotes { command: String },
    #[error(
        "unknown placeholder `{text}`; {{pm}} is the path of the first persistent file, {{pm:2}} that of the second; \
         if the braces are part of the command, put them in single quotes"
    )]
    Placeholder { text: String },
    #[error("`{}` does not exist", program.display())]
    NoSuchFile { program: PathBuf },
    #[error("`{}` is not an executable file", program.display())]
    NotExecutable { program: PathBuf },
    #[error("there is no command `{program}`")]
    NoSuchCommand { program: String },
}

/// Checks a command that will run in `directory`.
pub fn check_command(command: &str, directory: &Path) -> Result<(), CommandProblem> {
    let words = shell_words::split(command).map_err(|_| CommandProblem::Quotes {
        command: command.to_owned(),
    })?;
    if let Some(text) = unknown_placeholder(command) {
        let text = text.to_owned();
        return Err(CommandProblem::Placeholder { text });
    }
    let program = words.into_iter().find(|word| !word.is_empty());
    let program = program.ok_or(CommandProblem::Empty)?;
    if program.contains(|c| SHELL_CHARACTERS.contains(c)) {
        return Ok(());
    }
    if !program.contains('/') {
        return if is_known_to_shell(&program, directory) {
            Ok(())
        } else {
            Err(CommandProblem::NoSuchCommand { program })
        };
    }
    let program = directory.join(program);
    match program.metadata() {
        Err(_) => Err(CommandProblem::NoSuchFile { program }),
        Ok(file) if file.is_file() && file.permissions().mode() & 0o111 != 0 => Ok(()),
        Ok(_) => Err(CommandProblem::NotExecutable { program }),
    }
}

/// The first `{name}` that looks like a misspelt placeholder. Scripts are full of other text in braces, as in `awk "{print}"`,
/// so a name must be similar to that of a placeholder. What is in single quotes is left alone, and so are variables of a shell.
fn unknown_placeholder(command: &str) -> Option<&str> {
    let (mut quoted, mut before) = (false, ' ');
    for (at, character) in command.char_indices() {
        quoted ^= character == '\'';
        if character == '{' && !quoted && !['$', '\\'].contains(&before) {
            let inside = command[at + 1..].split('}').next().unwrap_or_default();
            let end = at + 1 + inside.len();
            let is_closed = command[end..].starts_with('}');
            if is_closed && !is_placeholder(inside) && is_similar_to_placeholder(inside) {
                return Some(&command[at..=end]);
            }
        }
        before = character;
    }
    None
}

/// Words that users of similar tools expect to stand for the file.
const WORDS_FOR_THE_FILE: [&str; 6] = ["file", "image", "path", "pool", "pmem", "persistent_file"];

/// Whether someone who writes this in braces probably means the path of a persistent file.
fn is_similar_to_placeholder(inside: &str) -> bool {
    let name = inside.split([':', ' ']).find(|word| !word.is_empty());
    let name = name.unwrap_or_default().to_ascii_lowercase();
    let is_misspelt = match name.as_bytes() {
        [_] | [] => false,
        // A letter more, another letter, or both in the wrong order.
        [b'p', _] | [_, b'm'] | [b'm', b'p'] => true,
        [a, b, c] => [[*a, *b], [*a, *c], [*b, *c]].contains(b"pm"),
        _ => false,
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_:- ".contains(c);
    inside.chars().all(is_name) && (is_misspelt || WORDS_FOR_THE_FILE.contains(&name.as_str()))
}

/// Whether `name` is what stands between the braces of a placeholder.
fn is_placeholder(name: &str) -> bool {
    let number = name.strip_prefix("pm:").map(str::parse::<usize>);
    name == "pm" || matches!(number, Some(Ok(1..)))
}

fn is_known_to_shell(program: &str, directory: &Path) -> bool {
    let asked = Command::new(SHELL)
        .args(["-c", "command -v -- \"$1\"", SHELL, program])
        .current_dir(directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    // Without a shell, the attempt to start the command says what is wrong.
    asked.map_or(true, |status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str) -> Result<(), CommandProblem> {
        check_command(command, Path::new("/"))
    }

    #[test]
    fn commands_that_can_start_pass() {
        for command in [
            "true",
            "/bin/sh -c x",
            "bin/sh {pm} {pm:2}",
            "cd /tmp && ./later",
            "A=1 anything",
            "$CHECK {pm}",
            "'/bin/sh' x",
            "{pm}",
        ] {
            assert_eq!(check(command), Ok(()), "{command}");
        }
    }

    #[test]
    fn commands_that_cannot_start_are_refused() {
        assert_eq!(check(""), Err(CommandProblem::Empty));
        assert_eq!(check(" ''"), Err(CommandProblem::Empty));
        let text = "`/no/such` does not exist";
        assert_eq!(check("no/such x | cat").unwrap_err().to_string(), text);
        let text = "`/tmp/` is not an executable file";
        assert_eq!(check("/tmp/ x").unwrap_err().to_string(), text);
        let text = "there is no command `no-such-command-anywhere`";
        assert_eq!(
            check("no-such-command-anywhere").unwrap_err().to_string(),
            text
        );
        assert!(matches!(check("'x"), Err(CommandProblem::Quotes { .. })));
    }

    #[test]
    fn only_placeholders_may_look_like_placeholders() {
        for (command, found) in [
            ("check {pool}", Some("{pool}")),
            ("check {PM}", Some("{PM}")),
            ("check {pn:2}", Some("{pn:2}")),
            ("check { pm }", Some("{ pm }")),
            ("check {ppm}", Some("{ppm}")),
            ("awk {print} {pm}", None),
            ("sh -c \"awk '{print}' {pm}\"", None),
            ("awk \"{print}\" {pm}", None),
            ("jq {a:1} {x} {name} {i}", None),
            ("find . -exec cat {} +", None),
            ("check \"{pm:x}\"", Some("{pm:x}")),
            ("check {pm:0}", Some("{pm:0}")),
            ("check {pm} {pm:12}", None),
            ("awk '{print}' {pm}", None),
            ("echo ${HOME} {} {a,b} { x; }", None),
            ("echo {open", None),
        ] {
            assert_eq!(unknown_placeholder(command), found, "{command}");
        }
    }
}
