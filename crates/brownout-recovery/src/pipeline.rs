//! Commands whose exit status a pipeline hides.
//!
//! The exit status of `check | cat` is that of `cat`, whatever `check` has found. A shell can be asked for another rule
//! (`set -o pipefail`); a command that does so, or that looks at `PIPESTATUS`, hides nothing. Of several commands in a row only the last
//! one decides, so pipelines before it do not matter, unless it always passes.
//!
//! Can miss: pipelines in a script file, and in commands that another program than a shell interprets. Can be wrong: a `|` between the
//! patterns of a `case`.

use crate::shells::is_shell;

/// What a command says about the statuses of pipelines.
const LOOKS_AT_STATUSES: [&str; 2] = ["pipefail", "PIPESTATUS"];
/// What ends a compound command, whose status is that of the last command in it.
const CLOSING: [&str; 5] = ["done", "fi", "esac", "}", ")"];
/// Commands with the status of the one before.
const SAME_STATUS: [&str; 2] = ["exit", "exit $?"];
/// Commands that always pass.
const ALWAYS_PASSING: [&str; 4] = ["true", ":", "exit 0", "echo"];

/// Whether the exit status of a command is that of the last part of a pipeline.
pub fn is_pipeline(command: &str) -> bool {
    if LOOKS_AT_STATUSES.iter().any(|word| command.contains(word)) {
        return false;
    }
    let words = shell_words::split(command).unwrap_or_default();
    let mut scripts = (0..words.len()).filter_map(|at| script_of_shell(&words[at..]));
    is_decided_by_pipeline(command) || scripts.any(is_pipeline)
}

/// The text that a shell, the first of the words, is given with `-c`.
fn script_of_shell(words: &[String]) -> Option<&str> {
    let (shell, arguments) = words.split_first()?;
    if !is_shell(shell.rsplit('/').next()?) {
        return None;
    }
    let mut is_given = false;
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.strip_prefix(['-', '+']) {
            // A long option.
            Some(letters) if letters.starts_with('-') => {}
            Some(letters) => {
                is_given |= letters.contains('c');
                // The name of an option follows, as in `-o errexit`.
                if letters.ends_with(['o', 'O']) {
                    arguments.next();
                }
            }
            // Without `-c` it is a script file, whose arguments follow.
            None => return Some(argument.as_str()).filter(|_| is_given),
        }
    }
    None
}

/// Whether the last command in a row is a pipeline, or one that always passes after a pipeline.
fn is_decided_by_pipeline(command: &str) -> bool {
    let mut commands = commands_in_row(command);
    let mut hides_others = false;
    while let Some(last) = commands.pop() {
        let text = last.text.trim();
        let first_word = text.split_whitespace().next().unwrap_or_default();
        if last.has_pipe {
            return true;
        }
        hides_others |= ALWAYS_PASSING.contains(&text) || ALWAYS_PASSING.contains(&first_word);
        let is_transparent =
            text.is_empty() || CLOSING.contains(&text) || SAME_STATUS.contains(&text);
        if !hides_others && !is_transparent {
            return false;
        }
    }
    false
}

/// One of several commands in a row.
#[derive(Default)]
struct CommandInRow {
    text: String,
    /// Whether a shell reads a `|` between two parts of it, other than in a substitution, whose status counts for nothing.
    has_pipe: bool,
}

/// The commands between `;`, `&` and ends of lines, without what is in quotes and comments.
fn commands_in_row(command: &str) -> Vec<CommandInRow> {
    let mut commands = vec![CommandInRow::default()];
    let mut rest = command.chars().peekable();
    let (mut substitutions, mut in_backticks) = (0_u32, false);
    let mut before = ' ';
    while let Some(character) = rest.next() {
        let is_outside = substitutions == 0 && !in_backticks;
        let last = commands.len() - 1;
        match character {
            '\\' => {
                rest.next();
            }
            '\'' => {
                rest.by_ref().find(|&c| c == '\'');
            }
            '"' => skip_double_quotes(&mut rest),
            '#' if before.is_whitespace() => {
                rest.by_ref().find(|&c| c == '\n');
            }
            '`' => in_backticks = !in_backticks,
            '(' if before == '$' || substitutions > 0 => substitutions += 1,
            ')' if substitutions > 0 => substitutions -= 1,
            '|' | '&' if rest.peek() == Some(&character) => {
                rest.next();
            }
            '|' if before != '>' && is_outside => commands[last].has_pipe = true,
            // Not `2>&1`, `&>log` or `|&`.
            '&' if ['>', '|'].contains(&before) || rest.peek() == Some(&'>') => {}
            ';' | '&' | '\n' if is_outside => commands.push(CommandInRow::default()),
            other if is_outside => commands[last].text.push(other),
            _ => {}
        }
        before = character;
    }
    commands
}

fn skip_double_quotes(rest: &mut impl Iterator<Item = char>) {
    while let Some(character) = rest.next() {
        match character {
            '"' => return,
            '\\' => {
                rest.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_hides_the_status_of_its_first_commands() {
        for command in [
            "./check {pm} | cat",
            "./check {pm}|tee log",
            "./check {pm} 2>&1 | tail -1; true",
            "./check {pm} | tail -1; echo done",
            "./check {pm} | tail -1; exit $?",
            "./check {pm} |& cat",
            "cd build; ./check {pm} | cat",
            "./show {pm} && ./check {pm} | cat",
            "for file in {pm}; do ./check $file | cat; done",
            "(./check {pm} | cat)",
            "a=$(x | y); ./check \"$a\" | cat",
            "sh -c './check {pm} | cat'",
            "timeout 5 /bin/bash -ec \"./check | cat\"",
            "bash -o errexit -c './check | cat'",
            "bash -euo nounset -c './check | cat'",
            "bash --norc -c './check | cat'",
            "busybox sh -c './check | cat'",
        ] {
            assert!(is_pipeline(command), "{command}");
        }
    }

    #[test]
    fn other_commands_have_their_own_status() {
        for command in [
            "./check {pm}",
            "./check {pm} || exit 1",
            "./check {pm} >log 2>&1 && ./verify {pm}",
            "./show {pm} | sort > shown; ./check {pm}",
            "./show {pm} | sort > shown & ./check {pm}",
            "./show {pm} | sort > shown\n./check {pm}",
            "(./show {pm} | sort; ./check {pm})",
            "./check '|' \"a | b\" \\|",
            "./check >| log",
            "./check # | cat",
            "test \"$(./show {pm} | wc -l)\" -eq 3",
            "test `./show {pm} | wc -l` -eq 3",
            "x=$(./show {pm} | (cat | wc -l)) && ./check $x",
            "grep 'a | b' log",
            "sh -c './check || exit 1'",
            "sh -c './show | sort > shown; ./check'",
            "bash -c 'set -o pipefail; ./check | cat'",
            "bash -o pipefail -c './check | cat'",
            "bash -c './check | cat; exit ${PIPESTATUS[0]}'",
            "sh check.sh -c 'a | b'",
        ] {
            assert!(!is_pipeline(command), "{command}");
        }
    }
}
